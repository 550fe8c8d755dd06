"""Names of documents as pages show them: clean, short, and never cut in the middle of a character."""

from __future__ import annotations

from tasks.intake.clean import clean
from tasks.intake.clusters import is_border
from tasks.languages import lazy

LONGEST = 200
FIRST_WORDS = 60
MOST_READ = 10_000
"""Characters of a line that are looked at: many more than any of them may have."""
NAMELESS = lazy("Untitled document")


def title_of_file(filename: str) -> str | None:
    """The last part of the name a client gave, cleaned, as it was written; None if nothing is left of it.

    Clients send whole paths, with either slash. The name is shown and offered for download, and never opens anything.
    """
    last = filename.replace("\\", "/").rpartition("/")[2]
    name = one_line(last)
    return None if name.strip(". ") == "" else cut(name, LONGEST)


def title_of_text(text: str) -> str:
    """The first words of a text."""
    line = next((found for found in map(one_line, text[:4000].splitlines()) if found), str(NAMELESS))
    line = line.lstrip("#>*-= ") or line
    if len(line) <= FIRST_WORDS:
        return line
    head = cut(line, FIRST_WORDS)
    words, _, _ = head.rpartition(" ")
    return (words if len(words) > FIRST_WORDS // 2 else head).rstrip(" ,;:") + "…"


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
