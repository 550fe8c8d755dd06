"""Formats dates and times in the active language, in UTC. app.js shows them in the reader's own zone."""

from __future__ import annotations

from datetime import datetime

from babel.dates import format_date, format_skeleton

from tasks.i18n import ENGLISH, language


def clock_in_words(at: datetime, seconds: bool = False) -> str:
    """Return the time of day: 14:05 UTC."""
    return f"{at:%H:%M:%S} UTC" if seconds else f"{at:%H:%M} UTC"


def day_in_words(at: datetime) -> str:
    """Return the day: 30 Nov 2026, 30. Nov. 2026."""
    locale = language()
    if locale == ENGLISH:  # Babel's plain English is American and would put the month first
        return format_date(at, "d MMM y", locale=locale)
    return format_skeleton("yMMMd", at, locale=locale)
