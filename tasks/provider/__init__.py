"""The providers of summaries. Only these modules import an AI SDK.

Every call ends with an `Answer` or one classified `ProviderError`, or is cancelled. No code here retries, waits for a
retry, or reads the environment (except for the proxy and certificate variables of the HTTP client).
"""

from __future__ import annotations

from tasks.provider.base import (
    Answer,
    BackgroundProvider,
    CallProgress,
    Pending,
    Prompt,
    Provider,
    ProviderError,
    may_have_been_billed,
)
from tasks.provider.deadline import complete_within, within
from tasks.provider.settings import ProviderSettings


def make_provider(settings: ProviderSettings) -> Provider:
    """Return the provider that the settings name. Raises ProviderError if it cannot work with them.

    Imports a provider only when it is requested: the SDK takes half a second and 40 MB, sumy comes with an extra only.
    """
    if settings.provider == "local":
        from tasks.provider.local import LocalProvider

        return LocalProvider()
    if settings.api == "responses":
        from tasks.provider.openai_background import BackgroundOpenAIProvider

        return BackgroundOpenAIProvider(settings)
    from tasks.provider.openai_api import OpenAIProvider

    return OpenAIProvider(settings)


__all__ = [
    "Answer",
    "BackgroundProvider",
    "CallProgress",
    "Pending",
    "Prompt",
    "Provider",
    "ProviderError",
    "ProviderSettings",
    "complete_within",
    "make_provider",
    "may_have_been_billed",
    "within",
]
