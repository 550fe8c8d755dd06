"""The texts about what was measured while a document was read. A fact that was not measured is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks.i18n import _, lazy, ngettext
from webapp.text.numbers import number
from webapp.text.strings import cut

BEGINNING = 200
"""The most characters of the text that are shown."""
ENCODINGS: Mapping[str, str] = {
    "cp932": lazy("Shift JIS (Japanese)"),
    "euc_jp": lazy("EUC-JP (Japanese)"),
    "iso2022_jp": lazy("ISO-2022-JP (Japanese)"),
    "gb18030": lazy("GB 18030 (Chinese)"),
    "big5": lazy("Big5 (Chinese)"),
    "cp949": lazy("Windows-949 (Korean)"),
    "cp1250": lazy("Windows-1250 (Central European)"),
    "cp1251": lazy("Windows-1251 (Cyrillic)"),
    "cp1252": "Windows-1252",
    "cp1253": lazy("Windows-1253 (Greek)"),
    "cp1255": lazy("Windows-1255 (Hebrew)"),
    "cp1254": lazy("Windows-1254 (Turkish)"),
    "cp1256": lazy("Windows-1256 (Arabic)"),
    "cp850": lazy("DOS 850 (Western European)"),
    "cp866": lazy("DOS 866 (Cyrillic)"),
    "cp874": lazy("Windows-874 (Thai)"),
    "koi8_r": lazy("KOI8-R (Cyrillic)"),
    "mac_cyrillic": "Mac OS Cyrillic",
    "mac_roman": "Mac OS Roman",
}


def encoding_in_words(encoding: str) -> str | None:
    """Return the common name of an encoding; None for UTF-8, which is not worth mentioning."""
    name = encoding.lower().replace("-", "_")
    if name in ("utf_8", "ascii", "utf_8_sig"):
        return None
    if name.startswith(("utf_16", "utf_32")):
        return name[:6].upper().replace("_", "-")
    iso = re.fullmatch(r"iso_?8859_(\d+)", name)
    return f"ISO 8859-{iso[1]}" if iso else str(ENCODINGS.get(name, name.upper().replace("_", "-")))


def main_measure(facts: Mapping[str, Any] | None) -> str | None:
    """Return the most telling number as text: pages, else rows, else words. Returns None if nothing was measured."""
    for name, in_words in (("pages", _pages), ("rows", _rows), ("words", _words)):
        measured = _number(facts or {}, name)
        if measured is not None:
            return in_words(measured)
    return None


def what_was_read(facts: Mapping[str, Any], parts: int) -> str | None:
    """Return everything that was measured, in one short line; None if nothing was.

    `parts` is the number of requests in which the text went to the AI service.
    """
    measured = [*_size(facts), *_doubts(facts)]
    if parts > 1:
        measured.append(_("read in %(num)s parts", num=number(parts)))
    return ", ".join(measured) or None


def _pages(count: int) -> str:
    return ngettext("%(num)s page", "%(num)s pages", count, num=number(count))


def _rows(count: int) -> str:
    return ngettext("%(num)s row", "%(num)s rows", count, num=number(count))


def _columns(count: int) -> str:
    return ngettext("%(num)s column", "%(num)s columns", count, num=number(count))


def _words(count: int) -> str:
    return ngettext("%(num)s word", "%(num)s words", count, num=number(count))


def _size(facts: Mapping[str, Any]) -> list[str]:
    sizes = []
    pages, with_text = _number(facts, "pages"), _number(facts, "pages_with_text")
    if pages is not None and with_text is not None and with_text < pages:
        sizes.append(
            ngettext(
                "%(some)s of %(num)s page had text",
                "%(some)s of %(num)s pages had text",
                pages,
                some=number(with_text),
                num=number(pages),
            )
        )
    elif pages is not None:
        sizes.append(_pages(pages))
    rows, columns = _number(facts, "rows"), _number(facts, "columns")
    if rows is not None:
        sizes.append(_rows(rows) + (f" × {_columns(columns)}" if columns is not None else ""))
    words = _number(facts, "words")
    return sizes if words is None else [*sizes, _words(words)]


def _doubts(facts: Mapping[str, Any]) -> list[str]:
    """Return the facts that may explain why the text looks wrong."""
    doubts = []
    damaged, replaced = _number(facts, "pages_damaged"), _number(facts, "replaced_bytes")
    if damaged:
        doubts.append(ngettext("%(num)s page was damaged", "%(num)s pages were damaged", damaged, num=number(damaged)))
    unread = _number(facts, "embedded_unread")
    if unread:
        doubts.append(
            ngettext(
                "%(num)s embedded chart, diagram or file was not read",
                "%(num)s embedded charts, diagrams or files were not read",
                unread,
                num=number(unread),
            )
        )
    encoding = facts.get("encoding")
    words = encoding_in_words(encoding) if isinstance(encoding, str) else None
    if words:
        doubts.append(_("encoding %(name)s", name=words))
    if replaced:
        doubts.append(
            ngettext(
                "%(num)s unreadable character was replaced",
                "%(num)s unreadable characters were replaced",
                replaced,
                num=number(replaced),
            )
        )
    return doubts


def beginning_of(text: str) -> str:
    """Return the beginning of the text: just enough to see that it was read correctly."""
    text = text.strip()
    head = cut(text, BEGINNING)
    return head if head == text else f"{head}…"


def _number(facts: Mapping[str, Any], name: str) -> int | None:
    measured = facts.get(name)
    return measured if isinstance(measured, int) and not isinstance(measured, bool) else None
