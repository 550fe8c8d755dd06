"""Inserts times into translated texts, as elements that app.js shows in the reader's own time zone."""

from __future__ import annotations

from datetime import datetime

from flask import get_template_attribute
from markupsafe import Markup


def fill(translated: str, **facts: object) -> Markup:
    """Return the text with the facts in place of its `%(name)s`. All but Markup is escaped."""
    return Markup.escape(translated) % facts


def clock(at: datetime, *, seconds: bool = False, today: datetime | None = None) -> Markup:
    """Return a time of day, with `seconds` to the second, and with its day if that is not `today`."""
    time = _rendered("clock", at, seconds)
    return time if today is None or at.date() == today.date() else time + ", " + day(at)


def day(at: datetime) -> Markup:
    """Return a date."""
    return _rendered("day", at)


def countdown(seconds: float) -> Markup:
    """Return how long it is until something, which app.js counts down. It is not read out by screen readers."""
    return _rendered("countdown", seconds)


def _rendered(macro: str, *values: object) -> Markup:
    return Markup(str(get_template_attribute("_macros.html", macro)(*values)).strip())
