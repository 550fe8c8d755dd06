"""Formats numbers and dates for people."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the template filters for numbers and dates."""
    from datetime import UTC, datetime

    from webapp.text import dates, numbers

    app.jinja_env.filters.update(
        duration=numbers.duration_in_words,
        size=numbers.size_in_words,
        clock_in_words=dates.clock_in_words,
        day_in_words=dates.day_in_words,
    )
    app.jinja_env.globals["now"] = lambda: datetime.now(UTC)
