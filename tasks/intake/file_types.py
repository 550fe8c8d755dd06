"""Detects the kind of a file by its content. Cheap and safe enough for the web process: no document is parsed.

The file name decides only where content cannot: Markdown, CSV and plain text are all just text.
"""

from __future__ import annotations

import re
import zipfile
from enum import StrEnum

from tasks.intake.clean import clean
from tasks.intake.errors import DocumentRefused, Refusal
from tasks.intake.formats.utf16_detection import wide_encoding
from tasks.intake.formats.zip_archive import check_declared_size, open_archive, read_part

MAX_UNPACKED_BYTES = 32 * 1024 * 1024


class Kind(StrEnum):
    """Represents a kind of document that we read. The value is stored, and part of the API."""

    TXT = "txt"
    MARKDOWN = "markdown"
    HTML = "html"
    CSV = "csv"
    PDF = "pdf"
    DOCX = "docx"
    ODT = "odt"
    RTF = "rtf"


TEXT_KINDS = frozenset({Kind.TXT, Kind.MARKDOWN, Kind.HTML, Kind.CSV})

_BY_ENDING = {
    "csv": Kind.CSV,
    "tsv": Kind.CSV,
    "md": Kind.MARKDOWN,
    "markdown": Kind.MARKDOWN,
    "mdown": Kind.MARKDOWN,
    "mkd": Kind.MARKDOWN,
    "htm": Kind.HTML,
    "html": Kind.HTML,
    "xhtml": Kind.HTML,
}
_IMAGES = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0\0\0\0|II\*\0|MM\0\*|RIFF.{4}WEBP|\0\0[\1\2]\0[^\0]\0|8BPS\0"
    rb"|.{4}ftyp(?:hei[cfmsx]|hev[cx]|mif1|avi[fs])|\xff\x0a|\0\0\0\x0cJXL |\0\0\0\x0cjP  ",
    re.DOTALL,
)
# File types that could pass for text but are not documents.
_UNSUPPORTED = re.compile(rb"%!PS|\x7fELF|MZ.{30}.*\0\0\0|\x1f\x8b|Rar!\x1a|7z\xbc\xaf|SQLite format 3\0", re.DOTALL)
_HTML_START = re.compile(r"(?:\s|<\?xml[^>]*>|<!--.*?-->)*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL)
_SVG_START = re.compile(r"(?:\s|<\?xml[^>]*>|<!--.*?-->|<!doctype\s+svg[^>]*>)*<svg[\s>]", re.IGNORECASE | re.DOTALL)
_DOCX_MAIN = re.compile(r"word/document\d*\.xml")
_ODT_TYPES = ("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template")
_PARTS_WITH_TEXT = re.compile(r"(?:word/(?:document|header|footer|footnotes|endnotes)\d*|content|styles)\.xml")
_TAG = re.compile(rb"<[^>]*>")
_SAMPLE = 64 * 1024
_HEAD = 4096
_MAX_STRAY_BYTES = 3  # this few prove nothing, however short the file
_NOT_TEXT_BYTES = bytes({*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F})
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def sniff(data: bytes, filename: str | None, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> Kind:
    """Return the kind of document that `data` is.

    Raises DocumentRefused for kinds that we do not read, for empty files, and for zipped documents that declare
    themselves encrypted, or larger than `max_unpacked_bytes` when unpacked.
    """
    if not data.strip():
        raise DocumentRefused(Refusal.EMPTY)
    if not data.strip(b"\0 \t\r\n\x0b\x0c"):
        raise DocumentRefused(Refusal.NO_TEXT)
    head = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"%PDF-") or (b"%PDF-" in data[:1024] and b"startxref" in data[-2048:]):
        return Kind.PDF
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped_kind(open_archive(data), max_unpacked_bytes)
    if data.startswith(bytes.fromhex("d0cf11e0a1b11ae1")):
        raise DocumentRefused(_ole_refusal(data))
    if head.startswith(b"{\\rtf"):
        return Kind.RTF
    if _IMAGES.match(data[:64]):
        raise DocumentRefused(Refusal.IMAGE)
    if _UNSUPPORTED.match(data[:512]) or _looks_binary(data):
        raise DocumentRefused(Refusal.UNSUPPORTED)
    return _text_kind(data, filename)


def _zipped_kind(archive: zipfile.ZipFile, max_unpacked_bytes: int) -> Kind:
    names = archive.NameToInfo
    if "[Content_Types].xml" in names and any(_DOCX_MAIN.fullmatch(name) for name in names):
        kind = Kind.DOCX
    elif "content.xml" in names and _declared_type(archive) in _ODT_TYPES:
        kind = Kind.ODT
    elif "encrypted-package" in names and _declared_type(archive) in _ODT_TYPES:
        raise DocumentRefused(Refusal.LOCKED)
    else:
        raise DocumentRefused(Refusal.UNSUPPORTED)
    check_declared_size(archive, max_unpacked_bytes)
    if _is_blank(archive):
        raise DocumentRefused(Refusal.NO_TEXT)
    return kind


def _is_blank(archive: zipfile.ZipFile) -> bool:
    """Return True if a small document holds only tags and white space. Removes tags by a pattern, parses nothing."""
    names = [name for name in archive.NameToInfo if _PARTS_WITH_TEXT.fullmatch(name)]
    if sum(archive.getinfo(name).file_size for name in names) > _SAMPLE:
        return False
    return not any(_TAG.sub(b"", read_part(archive, name, _SAMPLE)).strip() for name in names)


def _declared_type(archive: zipfile.ZipFile) -> str:
    """Return the content of the `mimetype` member of an OpenDocument file; empty if there is none."""
    try:
        with archive.open("mimetype") as stream:
            return stream.read(128).decode("ascii", "replace").strip()
    except Exception:  # absent or unreadable: either way it does not say it is an ODT
        return ""


def _ole_refusal(data: bytes) -> Refusal:
    """Return the reason to refuse an OLE container, which both old Office files and locked new ones use.

    Its directory names the contents, in UTF-16.
    """
    if "EncryptedPackage".encode("utf-16-le") in data:
        return Refusal.LOCKED
    not_word = ("Workbook", "PowerPoint Document", "__substg1.0_")
    if any(name.encode("utf-16-le") in data for name in not_word):
        return Refusal.UNSUPPORTED
    return Refusal.LEGACY_WORD


def _looks_binary(data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or wide_encoding(data):
        return False
    sample = data[:_SAMPLE]
    printable = sample.translate(None, _NOT_TEXT_BYTES)
    return len(sample) - len(printable) > max(_MAX_STRAY_BYTES, 0.03 * len(sample))


def _text_kind(data: bytes, filename: str | None) -> Kind:
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), wide_encoding(data) or "utf-8")
    head = data[:_HEAD].decode(encoding, "replace").lstrip("\ufeff")
    if len(data) <= _HEAD and not clean(head).strip():
        raise DocumentRefused(Refusal.EMPTY if b"\0" not in data else Refusal.NO_TEXT)
    if _HTML_START.match(head):
        return Kind.HTML
    if _SVG_START.match(head):
        raise DocumentRefused(Refusal.IMAGE)
    ending = (filename or "").rpartition(".")[2].lower()
    return _BY_ENDING.get(ending, Kind.TXT)
