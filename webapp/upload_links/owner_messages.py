"""Texts for the owner of upload links, on their page."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy
from webapp.text.numbers import number
from webapp.upload_links.links import MAX_LINKS, MAX_ORIGINS, MAX_USES, LinkState

STATES: Mapping[LinkState, str] = {
    LinkState.OPEN: lazy("Open"),
    LinkState.USED_UP: lazy("Limit reached"),
    LinkState.EXPIRED: lazy("Expired"),
    LinkState.REVOKED: lazy("Revoked"),
}
LIVES: Mapping[str, tuple[int, str]] = {
    "hour": (3600, lazy("1 hour")),
    "day": (24 * 3600, lazy("1 day")),
    "week": (7 * 24 * 3600, lazy("7 days")),
    "month": (30 * 24 * 3600, lazy("30 days")),
    "year": (365 * 24 * 3600, lazy("a year")),
}
"""List how long a new link may live: the value in the form, the seconds, and the label."""
REVOKED = lazy("The link has been revoked and no longer works. You keep the documents.")
NAME_MISSING = lazy("Give the link a name, so you can tell later where it is used.")
LIFE_WRONG = lazy("Choose how long the link is valid.")
RETURN_WRONG = lazy("Use a complete URL that starts with https://.")


def uses_wrong() -> str:
    return _("Enter a number from 1 to %(most)s.", most=number(MAX_USES))


def too_many_sites() -> str:
    return _("Enter up to %(most)s sites.", most=number(MAX_ORIGINS))


def too_many_links() -> str:
    return _("You already have %(most)s open links. Revoke some first.", most=number(MAX_LINKS))


def site_wrong(typed: str) -> str:
    return _("“%(typed)s” is not an address like https://www.example.org.", typed=typed)
