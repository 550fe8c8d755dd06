"""Extracts the text of one document in this process. Imported only in the child, because it parses hostile bytes."""

from __future__ import annotations

from tasks.intake.clean import clean
from tasks.intake.errors import DocumentRefused, Refusal
from tasks.intake.file_types import TEXT_KINDS, Kind, sniff
from tasks.intake.formats import text as plain
from tasks.intake.formats.html import html_to_text
from tasks.intake.formats.office import docx_to_text, odt_to_text
from tasks.intake.formats.pdf import pdf_to_text
from tasks.intake.formats.rtf import rtf_to_text
from tasks.intake.types import Limits, Reading


def extract(data: bytes, filename: str | None, limits: Limits) -> Reading:
    """Read `data` to its end. The sandbox around this process bounds time and memory. Raises DocumentRefused."""
    kind = sniff(data, filename, limits.max_unpacked_bytes)
    raw, facts = _read(kind, data, limits)
    text = clean(raw)
    if not text.strip():
        raise DocumentRefused(Refusal.EMPTY if kind in TEXT_KINDS and b"\0" not in data else Refusal.NO_TEXT)
    if len(text) > limits.max_chars:
        raise DocumentRefused(Refusal.TOO_LONG)
    if kind == Kind.CSV:
        facts |= plain.csv_facts(text)
    facts |= {"characters": len(text), "words": len(text.split())}
    return Reading(text, kind, facts)


def _read(kind: Kind, data: bytes, limits: Limits) -> tuple[str, dict[str, int | str]]:
    if kind in TEXT_KINDS:
        return _read_text(kind, data, limits)
    if kind == Kind.PDF:
        return pdf_to_text(data, limits.max_pages, limits.max_chars)
    if kind == Kind.DOCX:
        return docx_to_text(data, limits.max_unpacked_bytes, limits.max_chars)
    if kind == Kind.ODT:
        return odt_to_text(data, limits.max_unpacked_bytes, limits.max_chars)
    return rtf_to_text(data, limits.max_chars), {}


def _read_text(kind: Kind, data: bytes, limits: Limits) -> tuple[str, dict[str, int | str]]:
    decoded = plain.decode(data, plain.declared_in_html(data) if kind == Kind.HTML else None)
    facts: dict[str, int | str] = {"encoding": decoded.encoding, "replaced_bytes": decoded.replaced_bytes}
    return html_to_text(decoded.text) if kind == Kind.HTML else decoded.text, facts
