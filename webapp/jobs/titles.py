"""Titles of documents as pages show them: clean, short, and never cut in the middle of a character."""

from __future__ import annotations

from tasks.i18n import lazy
from webapp.text.strings import cut, one_line

MAX_TITLE_LENGTH = 200
FIRST_WORDS = 60
NAMELESS = lazy("Untitled document")


def title_of_file(filename: str) -> str | None:
    """Return the last part of the file name that a client sent, cleaned; None if nothing is left of it.

    Clients send whole paths, with either slash. The name is shown and used for downloads. No file is ever opened by it.
    """
    last = filename.replace("\\", "/").rpartition("/")[2]
    name = one_line(last)
    return None if name.strip(". ") == "" else cut(name, MAX_TITLE_LENGTH)


def title_of_text(text: str) -> str:
    """Return the first words of a text."""
    line = next((found for found in map(one_line, text[:4000].splitlines()) if found), str(NAMELESS))
    line = line.lstrip("#>*-= ") or line
    if len(line) <= FIRST_WORDS:
        return line
    head = cut(line, FIRST_WORDS)
    words, _, _ = head.rpartition(" ")
    return (words if len(words) > FIRST_WORDS // 2 else head).rstrip(" ,;:") + "…"
