"""Moments in the language that is spoken, in UTC. app.js shows them in the reader's own zone."""

from __future__ import annotations

from datetime import datetime

from babel.dates import format_date, format_skeleton

from tasks.i18n import ENGLISH, language


def clock_in_words(at: datetime, seconds: bool = False) -> str:
    """The time of day: 14:05 UTC."""
    return f"{at:%H:%M:%S} UTC" if seconds else f"{at:%H:%M} UTC"


def day_in_words(at: datetime) -> str:
    """The day: 30 Nov 2026, 30. Nov. 2026."""
    spoken = language()
    if spoken == ENGLISH:  # whose month comes first in Babel, since that English is the American one
        return format_date(at, "d MMM y", locale=spoken)
    return format_skeleton("yMMMd", at, locale=spoken)
