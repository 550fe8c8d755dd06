"""Checks that the settings about a sign-in service go together."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tasks.settings import Settings

ITS_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")


def problems(settings: Settings) -> list[str]:
    """Return a line for each combination of settings that cannot work."""
    given = (settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret)
    if settings.oidc_issuer is None or None in given:
        together = "OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET go together. Set all three or none."
        return [together] if any(given) else []
    found = []
    address = urlsplit(settings.oidc_issuer)
    in_the_demo = settings.waybill_demo and address.scheme == "http" and address.hostname in ITS_OWN_MACHINE
    if not address.hostname or address.query or address.fragment or (address.scheme != "https" and not in_the_demo):
        found.append("OIDC_ISSUER must be an https address without a query.")
    if not settings.app_base_url:
        found.append("APP_BASE_URL is missing. With OIDC_ISSUER it is where the service sends people back to.")
    return found
