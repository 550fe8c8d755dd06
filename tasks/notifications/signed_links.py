"""The links in mails. A link that grants access is signed when the mail is written, so no row contains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from itsdangerous import BadData, URLSafeTimedSerializer

if TYPE_CHECKING:
    from tasks.settings import Settings


class Links:
    """Builds the URLs of the site for mails."""

    def __init__(self, settings: Settings) -> None:
        self._base = (settings.app_base_url or "").rstrip("/")
        self._settings = settings

    def page(self, path: str) -> str:
        """Return the URL of a page of the site, by its path."""
        return f"{self._base}{path}"

    def signed(self, path: str, purpose: str, facts: Sequence[str]) -> str:
        """Return the URL of a page whose path ends with a token that proves these facts, for this purpose only."""
        return f"{self._base}{path}/{_signer(self._settings, purpose).dumps(list(facts))}"


def read_token(settings: Settings, purpose: str, token: str, *, max_age_seconds: int) -> list[str] | None:
    """Return the facts that a token of `Links.signed` proves; None if it is forged, too old, or for another purpose."""
    try:
        facts = _signer(settings, purpose).loads(token, max_age=max_age_seconds)
    except BadData:
        return None
    return facts if isinstance(facts, list) and all(isinstance(fact, str) for fact in facts) else None


def _signer(settings: Settings, purpose: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(settings.signing_key, salt=f"waybill link: {purpose}")
