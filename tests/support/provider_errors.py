"""Checks what must hold for every error that a provider raises, whatever its response was."""

from __future__ import annotations

import traceback

from tasks.provider import ProviderError

KEY = "sk-SECRETKEY-0123456789"
DOCUMENT = "DOCUMENTTEXT about a pier."
# The fake marks its own words with "(fake)".
SECRETS = (KEY, "SECRETKEY", "DOCUMENTTEXT", "(fake)", "Bad Gateway", "PROXYPASSWORD")


def assert_harmless(error: ProviderError) -> None:
    """Check that no log or row of the error contains the key, the document or the provider's words."""
    everything = "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(vars(error))
    assert not [secret for secret in SECRETS if secret in everything]
    assert error.__cause__ is None
    assert error.__context__ is None
