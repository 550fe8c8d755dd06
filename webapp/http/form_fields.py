"""Reads numbers from forms and query strings, bounded before they are parsed."""

from __future__ import annotations

from flask import request

LARGEST = 2**63 - 1
"""The largest number that a database column holds."""

MAX_DIGITS = len(str(LARGEST))
"""The limit of digits to parse: `int` raises an error for some thousands of them."""


def number_in(text: str, limit: int) -> int | None:
    """Return the submitted number; None unless it is from 1 to `most`."""
    number = whole_number(text)
    return number if number is not None and 1 <= number <= limit else None


def whole_number(text: str) -> int | None:
    """Return a number without a sign, in the digits 0 to 9; None for anything else, and for too many digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def number_asked(name: str) -> int | None:
    """Return a number from a query string that this site generated; None if it is missing or invalid."""
    number = whole_number(request.args.get(name, ""))
    return None if number is None or number > LARGEST else number
