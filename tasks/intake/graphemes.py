"""Finds the borders between characters as a person counts them."""

from __future__ import annotations

import unicodedata

_JOINERS = {"\u200c", "\u200d"}
_HANGUL_PARTS = ("\u1160", "\u11ff")


def is_border(text: str, at: int) -> bool:
    """Return True if a cut before `text[at]` splits no character.

    Implements a cautious subset of https://unicode.org/reports/tr29/.
    """
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
    """Return True for marks, variation selectors, skin tones and tags of flags: they belong to the character before."""
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
