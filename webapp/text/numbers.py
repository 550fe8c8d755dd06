"""Formats numbers, sizes and durations in the active language."""

from __future__ import annotations

from decimal import Decimal

from babel.numbers import format_decimal

from tasks.i18n import language, ngettext

MB = 1024 * 1024


def number(value: float | Decimal, places: int = 0, *, all_places: bool = False) -> str:
    """Format a number with grouped thousands, rounded to `places` decimals; `all_places` keeps trailing zeros."""
    form = "#,##0" + ("." + ("0" if all_places else "#") * places if places else "")
    formatted: str = format_decimal(value, format=form, locale=language())
    return formatted


def size_in_words(size: int) -> str:
    """Format a number of bytes: 10 MB, 2.5 MB, 340 kB, 12 bytes."""
    if size >= MB:
        return f"{number(size / MB, 1)} MB"
    return f"{size // 1024} kB" if size >= 1024 else ngettext("%(num)s byte", "%(num)s bytes", size)


def duration_in_words(seconds: float) -> str:
    """Format a duration in units that are the same in all languages: 12 s, 1 min 12 s, 14 min, 3 h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
