"""What the owner of upload links reads about them, on their page."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.upload_links import MOST_LINKS, MOST_ORIGINS, MOST_USES, LinkState

STATES: Mapping[LinkState, str] = {
    LinkState.OPEN: "Open",
    LinkState.USED_UP: "Used up",
    LinkState.EXPIRED: "Expired",
    LinkState.REVOKED: "Revoked",
}
LIVES: Mapping[str, tuple[int, str]] = {
    "hour": (3600, "1 hour"),
    "day": (24 * 3600, "1 day"),
    "week": (7 * 24 * 3600, "7 days"),
    "month": (30 * 24 * 3600, "30 days"),
    "year": (365 * 24 * 3600, "a year"),
}
"""How long a new link may live: the word in the form, seconds, and what a person reads."""
REVOKED = "The link has been revoked. Nothing more is handed in by it; your documents stay."
NAME_MISSING = "Give the link a name, so that you know later where it is used."
LIFE_WRONG = "Choose how long the link may be used."
USES_WRONG = f"Write a number of documents from 1 to {MOST_USES:,}."
TOO_MANY_SITES = f"Name at most {MOST_ORIGINS} sites."
TOO_MANY_LINKS = f"There are {MOST_LINKS:,} open links already. Revoke some first."
RETURN_WRONG = "Use a whole address that starts with https://."


def site_wrong(typed: str) -> str:
    return f"“{typed}” is not an address like https://www.example.org."
