"""Extracts the text of DOCX and ODT files. Only imported in the child process.

Both are zipped XML. The parts that hold text are read through a streaming parser, so memory does not grow with the
number of elements, and must be well formed to their end: half a document is refused, not passed off as complete.
The text is that of the finished document: deleted passages, hidden text, comments and field codes are left out.
"""

from __future__ import annotations

import posixpath
import re
from typing import Protocol, TypeVar

from lxml import etree

from tasks.intake.errors import DocumentRefused, Refusal
from tasks.intake.formats.docx import HiddenStyles, WordText
from tasks.intake.formats.odt import OdtText
from tasks.intake.formats.zip_archive import check_declared_size, open_archive, read_parts

_DOCX_MAIN = re.compile(r"word/document\d*\.xml")
_UNREAD = r"(?:charts/chart\d*\.xml|diagrams/data\d*\.xml|embeddings/.+)"
_PIECE = 64 * 1024
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ParserTarget(Protocol[T_co]):
    """Receives the events of lxml's streaming parser, which calls this a parser target."""

    def start(self, tag: str, attributes: dict[str, str]) -> None: ...
    def end(self, tag: str) -> None: ...
    def data(self, text: str) -> None: ...
    def close(self) -> T_co: ...


def docx_to_text(data: bytes, max_unpacked_bytes: int, max_chars: int) -> tuple[str, dict[str, int | str]]:
    """Return headers, body, notes and footers, and the number of charts, diagrams and embedded files not read.

    Raises DocumentRefused: damaged, locked, too_large_unpacked, too_long.
    """
    archive = open_archive(data)
    check_declared_size(archive, max_unpacked_bytes)
    names = sorted(archive.NameToInfo)
    main = next((name for name in names if _DOCX_MAIN.fullmatch(name)), None)
    if main is None:
        raise DocumentRefused(Refusal.DAMAGED)
    folder = posixpath.dirname(main)
    headers = [name for name in names if re.fullmatch(rf"{folder}/header\d*\.xml", name)]
    footers = [name for name in names if re.fullmatch(rf"{folder}/footer\d*\.xml", name)]
    notes = [f"{folder}/footnotes.xml", f"{folder}/endnotes.xml"]
    sheet = f"{folder}/styles.xml"
    parts = read_parts(archive, [*headers, main, *notes, *footers, sheet], max_unpacked_bytes)
    hidden = _parse(parts.pop(sheet), HiddenStyles()) if sheet in parts else frozenset()
    targets = {name: WordText(2 * max_chars, hidden) for name in parts}
    # Every section has its own headers, most often with the same words: the dict keeps each text once.
    texts = dict.fromkeys(_parse(part, targets[name]) for name, part in parts.items())
    unread = sum(1 for name in names if re.fullmatch(rf"{folder}/{_UNREAD}", name))
    unread += sum(target.unread for target in targets.values())
    return "\n\n".join(text for text in texts if text), {"embedded_unread": unread} if unread else {}


def odt_to_text(data: bytes, max_unpacked_bytes: int, max_chars: int) -> tuple[str, dict[str, int | str]]:
    """Return headers and footers, body and notes, and the number of embedded objects not read.

    Raises DocumentRefused: damaged, locked, too_large_unpacked, too_long.
    """
    archive = open_archive(data)
    check_declared_size(archive, max_unpacked_bytes)
    parts = read_parts(archive, ["META-INF/manifest.xml", "styles.xml", "content.xml"], max_unpacked_bytes)
    if b"encryption-data" in parts.get("META-INF/manifest.xml", b""):
        raise DocumentRefused(Refusal.LOCKED)
    if "content.xml" not in parts:
        raise DocumentRefused(Refusal.DAMAGED)
    styles = OdtText(2 * max_chars)
    headers_and_footers = _parse(parts["styles.xml"], styles) if "styles.xml" in parts else ""
    body = _parse(parts["content.xml"], OdtText(2 * max_chars, frozenset(styles.hidden_styles)))
    unread = sum(1 for name in archive.NameToInfo if re.fullmatch(r"Object [^/]+/content\.xml", name))
    text = "\n\n".join(part for part in (headers_and_footers, body) if part)
    return text, {"embedded_unread": unread} if unread else {}


class _NoDoctype:
    """Passes events on, and refuses a document type: no program writes one in these formats, only attackers do."""

    def __init__(self, target: ParserTarget[object]) -> None:
        self.start, self.end, self.data, self.close = target.start, target.end, target.data, target.close

    def doctype(self, name: str | None, public_id: str | None, system_url: str | None) -> None:
        raise DocumentRefused(Refusal.DAMAGED)


def _parse(part: bytes, target: ParserTarget[T]) -> T:
    parser = etree.XMLParser(
        target=_NoDoctype(target), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        for start in range(0, len(part), _PIECE):
            parser.feed(part[start : start + _PIECE])
        result: T = parser.close()
    except etree.XMLSyntaxError:
        raise DocumentRefused(Refusal.DAMAGED) from None
    return result
