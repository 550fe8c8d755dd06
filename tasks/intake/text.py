"""Bytes of text kinds → text. The order of guesses is fixed, so the same bytes always give the same text.

Byte-order mark, then UTF-16 by its NULs, then strict UTF-8; a file that is UTF-8 but for a few stray bytes stays UTF-8.
Otherwise a legacy code page: where the bytes above 0x7F stand side by side (Cyrillic, Greek, Hebrew, Arabic, Thai,
Chinese, Japanese, Korean) charset-normalizer chooses among the usual ones; where they stand alone between Latin
letters it is Windows-1252, which guessers often miss, unless that puts signs inside words where Windows-1250 has
letters (Polish, Slovak). Czech or Hungarian without such letters is read as Windows-1252: the name of the encoding is a
fact of the reading, so that a person can see why accents are wrong, and save as UTF-8.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass

import charset_normalizer

from tasks.intake.kinds import wide_encoding

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LEGACY = [
    "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp874",
]  # fmt: skip
_HIGH_RUN = re.compile(rb"[\x80-\xff]{2,}")
_LETTER = rb"[A-Za-z\xc0-\xff]"
_CENTRAL_EUROPEAN = re.compile(_LETTER + rb"([\xa3\xa5\xaa\xaf\xb3\xb9\xba\xbc\xbe\xbf])(?=" + _LETTER + rb")")
_HEBREW = bytes({*range(0xE0, 0xFB), 0x85, *range(0x91, 0x98), 0xA0, 0xA4, 0xAB, 0xB7, 0xBB})
_SAMPLE = 256 * 1024
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class Decoded:
    """Text, the encoding it was read as, and how many bytes had no meaning in it and became U+FFFD."""

    text: str
    encoding: str
    replaced_bytes: int


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Decode `data`; `declared` is an encoding that the document itself names, tried before guessing."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_as(data[len(mark) :], encoding)
    wide = wide_encoding(data)
    if wide:
        return _decode_as(data, wide)
    if b"\x1b$" in data and _is_strictly(data, "iso2022_jp"):
        return _decode_as(data, "iso2022_jp")
    if _is_strictly(data, "utf-8") or _is_nearly_utf8(data):
        return _decode_as(data, "utf-8")
    if declared and _is_strictly(data, declared):
        return _decode_as(data, declared)
    return _decode_as(data, _legacy_encoding(data))


def declared_in_html(data: bytes) -> str | None:
    """The encoding named in a `<meta>` near the start, as Python calls it; None when there is none that we know."""
    found = _META_CHARSET.search(data[:2048])
    if not found:
        return None
    name = found[1].decode("ascii")
    if name.lower() in ("iso-8859-1", "latin1", "latin-1", "us-ascii"):
        return "cp1252"  # as every browser reads it
    try:
        codecs.lookup(name)
        b"x".decode(name)
    except Exception:  # unknown, or a codec that is not text
        return None
    return codecs.lookup(name).name


def _decode_as(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding), encoding, 0)
    except UnicodeDecodeError:
        kept = len(data.decode(encoding, "ignore").encode(encoding))
        return Decoded(data.decode(encoding, "replace"), encoding, max(1, len(data) - kept))


def _is_strictly(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True


def _is_nearly_utf8(data: bytes) -> bool:
    """Legacy text hits a valid UTF-8 sequence by chance only, so many of them with few strays are no chance."""
    text = data.decode("utf-8", "ignore")
    stray = len(data) - len(text.encode("utf-8"))
    return sum(1 for character in text if character > "\x7f") > 4 * stray


def _legacy_encoding(data: bytes) -> str:
    data = data[:_SAMPLE]
    high = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))
    side_by_side = sum(len(run) for run in _HIGH_RUN.findall(data))
    if side_by_side < 0.5 * high:
        # Two different ones: a single sort may be a slip, as a question mark without a space before it in Spanish.
        return "cp1250" if len(set(_CENTRAL_EUROPEAN.findall(data))) > 1 else "cp1252"
    # Cyrillic of this length has a capital, or one of its last five letters, which is where Hebrew has nothing.
    if high >= 40 and data.translate(None, _HEBREW).isascii():
        return "cp1255"
    guess = charset_normalizer.from_bytes(data, cp_isolation=_LEGACY, enable_fallback=False).best()
    return guess.encoding if guess else "cp1252"


def csv_facts(text: str) -> dict[str, int]:
    """Count rows that hold something, and the columns of the widest. Empty when it does not parse as CSV.

    The text itself is handed on as it is written: a cell that looks like a formula is only text here, and no cell loses
    a quote or a line end.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t|", key=first.count)
    try:
        sizes = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error:
        return {}
    return {"rows": len(sizes), "columns": max(sizes, default=0)}
