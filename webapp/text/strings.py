"""Text cut to a length and to one line, never in the middle of a character."""

from __future__ import annotations

from tasks.intake.clean import clean
from tasks.intake.graphemes import is_border

MOST_READ = 10_000
"""Characters of a line that are looked at: many more than any of them may have."""


def one_line(text: str) -> str:
    """The text without control characters, all white space as single spaces. Of a very long one, its beginning."""
    return " ".join(clean(text[:MOST_READ]).split())


def cut(text: str, limit: int) -> str:
    """At most `limit` code points, ending between two characters as a person counts them.

    A cluster that is itself longer than the limit is cut anyway, since something must be shown.
    """
    if len(text) <= limit:
        return text
    at = limit
    while at and not is_border(text, at):
        at -= 1
    return text[: at or limit].rstrip()
