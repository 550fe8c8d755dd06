"""Shortens text to a length and to one line, never in the middle of a character."""

from __future__ import annotations

from tasks.intake.clean import clean
from tasks.intake.graphemes import is_border

MAX_CHARACTERS_READ = 10_000
"""Characters of a line that are processed: many more than any field allows."""


def one_line(text: str) -> str:
    """Return the text without control characters, with single spaces. Of a very long text, only the beginning."""
    return " ".join(clean(text[:MAX_CHARACTERS_READ]).split())


def cut(text: str, limit: int) -> str:
    """Return at most `limit` code points, ending between two characters as a person counts them.

    A cluster that is itself longer than the limit is cut, since something must be shown.
    """
    if len(text) <= limit:
        return text
    at = limit
    while at and not is_border(text, at):
        at -= 1
    return text[: at or limit].rstrip()
