"""Names of documents as pages show them: clean, short, and never cut in the middle of a character."""

from __future__ import annotations

import unicodedata

from tasks.intake.clean import clean

LONGEST = 200
FIRST_WORDS = 60
NAMELESS = "Untitled document"

_JOINERS = {"\u200c", "\u200d"}
_HANGUL_PARTS = ("\u1160", "\u11ff")


def title_of_file(filename: str) -> str | None:
    """The last part of the name a client gave, cleaned, as it was written; None if nothing is left of it.

    Clients send whole paths, with either slash. The name is shown and offered for download, and never opens anything.
    """
    last = filename.replace("\\", "/").rpartition("/")[2]
    name = one_line(last)
    return None if name.strip(". ") == "" else cut(name, LONGEST)


def title_of_text(text: str) -> str:
    """The first words of a text."""
    line = next((found for found in map(one_line, text[:4000].splitlines()) if found), NAMELESS)
    line = line.lstrip("#>*-= ") or line
    if len(line) <= FIRST_WORDS:
        return line
    head = cut(line, FIRST_WORDS)
    words, _, _ = head.rpartition(" ")
    return (words if len(words) > FIRST_WORDS // 2 else head).rstrip(" ,;:") + "…"


def one_line(text: str) -> str:
    """The text without control characters, all white space as single spaces."""
    return " ".join(clean(text).split())


def cut(text: str, limit: int) -> str:
    """At most `limit` code points, ending between two characters as a person counts them.

    A cluster that is itself longer than the limit is cut anyway, since something must be shown.
    """
    if len(text) <= limit:
        return text
    at = limit
    while at and not _is_border(text, at):
        at -= 1
    return text[: at or limit].rstrip()


def _is_border(text: str, at: int) -> bool:
    """Whether one may cut before `text[at]`. A careful part of https://unicode.org/reports/tr29/."""
    before, after = text[at - 1], text[at]
    if before == "\u200d" or after in _JOINERS or _extends(after):
        return False
    if _is_flag_letter(before) and _is_flag_letter(after):
        start = at
        while start and _is_flag_letter(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 0
    return not _HANGUL_PARTS[0] <= after <= _HANGUL_PARTS[1]


def _extends(character: str) -> bool:
    """Marks, variation selectors, skin tones and the tags of flags belong to what stands before them."""
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
