"""The words for what was measured while a document was read. What was not measured is not said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from webapp.titles import cut
from webapp.wording import counted

BEGINNING = 200
ENCODINGS: Mapping[str, str] = {
    "cp932": "Shift JIS (Japanese)",
    "euc_jp": "EUC-JP (Japanese)",
    "iso2022_jp": "ISO-2022-JP (Japanese)",
    "gb18030": "GB 18030 (Chinese)",
    "big5": "Big5 (Chinese)",
    "cp949": "Windows-949 (Korean)",
    "cp1250": "Windows-1250 (Central European)",
    "cp1251": "Windows-1251 (Cyrillic)",
    "cp1252": "Windows-1252",
    "cp1253": "Windows-1253 (Greek)",
    "cp1255": "Windows-1255 (Hebrew)",
    "cp1254": "Windows-1254 (Turkish)",
    "cp1256": "Windows-1256 (Arabic)",
    "cp850": "DOS 850 (Western European)",
    "cp866": "DOS 866 (Cyrillic)",
    "cp874": "Windows-874 (Thai)",
    "koi8_r": "KOI8-R (Cyrillic)",
    "mac_cyrillic": "Mac OS Cyrillic",
    "mac_roman": "Mac OS Roman",
}


def encoding_in_words(encoding: str) -> str | None:
    """An encoding as people say it; None for UTF-8, which needs no words."""
    name = encoding.lower().replace("-", "_")
    if name in ("utf_8", "ascii", "utf_8_sig"):
        return None
    if name.startswith(("utf_16", "utf_32")):
        return name[:6].upper().replace("_", "-")
    iso = re.fullmatch(r"iso_?8859_(\d+)", name)
    return f"ISO 8859-{iso[1]}" if iso else ENCODINGS.get(name, name.upper().replace("_", "-"))


def main_measure(facts: Mapping[str, Any] | None) -> str | None:
    """The one number that says most: pages, else rows, else words."""
    for name, thing in (("pages", "page"), ("rows", "row"), ("words", "word")):
        number = _number(facts or {}, name)
        if number is not None:
            return counted(number, thing)
    return None


def what_was_read(facts: Mapping[str, Any], parts: int) -> str | None:
    """All that was measured, in one short line. `parts` is in how many requests the text went to the AI service."""
    said = [*_size(facts), *_doubts(facts)]
    if parts > 1:
        said.append(f"read in {parts:,} parts")
    return ", ".join(said) or None


def _size(facts: Mapping[str, Any]) -> list[str]:
    said = []
    pages, with_text = _number(facts, "pages"), _number(facts, "pages_with_text")
    if pages is not None and with_text is not None and with_text < pages:
        said.append(f"{with_text:,} of {counted(pages, 'page')} had text")
    elif pages is not None:
        said.append(counted(pages, "page"))
    rows, columns = _number(facts, "rows"), _number(facts, "columns")
    if rows is not None:
        said.append(counted(rows, "row") + (f" × {counted(columns, 'column')}" if columns is not None else ""))
    words = _number(facts, "words")
    return said if words is None else [*said, counted(words, "word")]


def _doubts(facts: Mapping[str, Any]) -> list[str]:
    """What a person should look at, should the text look wrong."""
    said = []
    damaged, replaced = _number(facts, "pages_damaged"), _number(facts, "replaced_bytes")
    if damaged:
        said.append(f"{counted(damaged, 'page')} {'was' if damaged == 1 else 'were'} damaged")
    unread = _number(facts, "embedded_unread")
    if unread:
        said.append(f"{counted(unread, 'embedded chart, diagram or file')} {'was' if unread == 1 else 'were'} not read")
    encoding = facts.get("encoding")
    words = encoding_in_words(encoding) if isinstance(encoding, str) else None
    if words:
        said.append(f"encoding {words}")
    if replaced:
        said.append(f"{counted(replaced, 'unreadable character')} {'was' if replaced == 1 else 'were'} replaced")
    return said


def beginning_of(text: str) -> str:
    """How the text begins: not more than a person needs to see that it was understood."""
    text = text.strip()
    head = cut(text, BEGINNING)
    return head if head == text else f"{head}…"


def _number(facts: Mapping[str, Any], name: str) -> int | None:
    number = facts.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) else None
