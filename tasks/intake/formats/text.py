"""Decodes the text kinds. The order of guesses is fixed, so the same bytes always give the same text.

First the byte-order mark, then UTF-16 and UTF-32 by their patterns, then strict UTF-8; a file that is UTF-8 except for
a few stray bytes counts as UTF-8. Otherwise a legacy code page, see `legacy_encodings`.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass

from tasks.intake.formats.legacy_encodings import is_strictly, legacy_encoding
from tasks.intake.formats.utf16_detection import wide_encoding

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because this mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class Decoded:
    """Represents decoded text, its encoding, and the number of bytes without a meaning in it, which became U+FFFD."""

    text: str
    encoding: str
    replaced_bytes: int


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Decode `data`. `declared` is an encoding that the document itself names; it is tried before guessing."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_as(data[len(mark) :], encoding)
    wide = wide_encoding(data)
    if wide:
        return _decode_as(data, wide)
    if b"\x1b$" in data and is_strictly(data, "iso2022_jp"):
        return _decode_as(data, "iso2022_jp")
    if is_strictly(data, "utf-8") or _is_nearly_utf8(data):
        return _decode_as(data, "utf-8")
    if declared and is_strictly(data, declared):
        return _decode_as(data, declared)
    return _decode_as(data, legacy_encoding(data))


def declared_in_html(data: bytes) -> str | None:
    """Return the encoding named in a `<meta>` near the start, by its Python name; None if there is no known one."""
    found = _META_CHARSET.search(data[:2048])
    if not found:
        return None
    name = found[1].decode("ascii")
    if name.lower() in ("iso-8859-1", "latin1", "latin-1", "us-ascii"):
        return "cp1252"  # as every browser reads it
    try:
        codecs.lookup(name)
        b"x".decode(name)
    except Exception:  # unknown, or a codec that is not for text
        return None
    return codecs.lookup(name).name


def _decode_as(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding), encoding, 0)
    except UnicodeDecodeError:
        kept = len(data.decode(encoding, "ignore").encode(encoding))
        return Decoded(data.decode(encoding, "replace"), encoding, max(1, len(data) - kept))


def _is_nearly_utf8(data: bytes) -> bool:
    """Return True if valid sequences far outnumber stray bytes: legacy text has valid sequences only by chance."""
    text = data.decode("utf-8", "ignore")
    stray = len(data) - len(text.encode("utf-8"))
    return sum(1 for character in text if character > "\x7f") > 4 * stray


def csv_facts(text: str) -> dict[str, int]:
    """Count the rows that are not empty, and the columns of the widest. Returns {} if the text is not valid CSV.

    The text itself stays as it is: a cell that looks like a formula is only text here, and no cell loses a quote or a
    line end.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t|", key=first.count)
    try:
        sizes = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error:
        return {}
    return {"rows": len(sizes), "columns": max(sizes, default=0)}
