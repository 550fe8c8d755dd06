"""Numbers from forms and addresses, bounded before they are parsed."""

from __future__ import annotations

from flask import request

LARGEST = 2**63 - 1
"""The largest number that a column of the database holds."""

MOST_DIGITS = len(str(LARGEST))
"""Longer ones are not even tried: `int` raises an error for some thousands of digits."""


def number_in(typed: str, most: int) -> int | None:
    """Read the number that was typed; None if it is none from 1 to `most`."""
    number = whole_number(typed)
    return number if number is not None and 1 <= number <= most else None


def whole_number(typed: str) -> int | None:
    """Read a number without a sign, in the digits 0 to 9; None for everything else, and for one with too many."""
    return int(typed) if typed.isascii() and typed.isdecimal() and len(typed) <= MOST_DIGITS else None


def number_asked(name: str) -> int | None:
    """Read a number of the query that an address of ours carries; None where it is missing, or none of ours."""
    number = whole_number(request.args.get(name, ""))
    return None if number is None or number > LARGEST else number
