from __future__ import annotations

import struct

import pytest

from tasks.intake import DocumentRefused, Kind, Refusal, sniff
from tasks.ledger.errors import Category
from tests.support.documents.office import case_file, docx, odt, paragraph, pdf, zipped

OLE = bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 504


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"words", None, Kind.TXT),
        (b"words", "notes.unknown", Kind.TXT),
        (b"# words", "notes.MD", Kind.MARKDOWN),
        (b"a;b", "table.csv", Kind.CSV),
        (b"<p>words", "page.html", Kind.HTML),
        (b"\n<!-- x --><!DOCTYPE html><p>words", "named.txt", Kind.HTML),
        ("<html><p>words".encode("utf-16"), None, Kind.HTML),
        (b"\xff\xfew\0o\0r\0d\0", None, Kind.TXT),
        ("wide words".encode("utf-16-le"), None, Kind.TXT),
        ("会議".encode("cp932"), "x.exe", Kind.TXT),
        (pdf("words"), "named.docx", Kind.PDF),
        (b"junk before\n" + pdf("words"), None, Kind.PDF),
        (b"An essay on the five characters %PDF- and what they mean.", "essay.txt", Kind.TXT),
        (docx(paragraph("words")), "named.pdf", Kind.DOCX),
        (odt("<text:p>words</text:p>"), None, Kind.ODT),
        (rb"{\rtf1 words}", "named.doc", Kind.RTF),
    ],
)
def test_content_decides_and_the_name_only_among_text(data: bytes, name: str | None, kind: Kind) -> None:
    assert sniff(data, name) == kind


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"", Refusal.EMPTY),
        (b" \r\n\t", Refusal.EMPTY),
        (b"\0" * 512, Refusal.NO_TEXT),
        (OLE, Refusal.LEGACY_WORD),
        (OLE + "EncryptedPackage".encode("utf-16-le"), Refusal.LOCKED),
        (OLE + "Workbook".encode("utf-16-le"), Refusal.UNSUPPORTED),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 64, Refusal.IMAGE),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", Refusal.IMAGE),
        (b"GIF89a\1\0\1\0", Refusal.IMAGE),
        (b"\0\0\0\x18ftypheic\0\0\0\0", Refusal.IMAGE),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><text>x</text></svg>", Refusal.IMAGE),
        (b"MZ" + b"\x90\0\3\0\0\0\4\0" * 16, Refusal.UNSUPPORTED),
        (b"\x7fELF\2\1\1" + b"\0" * 64, Refusal.UNSUPPORTED),
        (bytes(range(256)) * 8, Refusal.UNSUPPORTED),
        (zipped(("notes.txt", "just a zip")), Refusal.UNSUPPORTED),
        (zipped(("[Content_Types].xml", ""), ("xl/workbook.xml", "")), Refusal.UNSUPPORTED),
        (zipped(("mimetype", "application/epub+zip"), ("content.xml", "")), Refusal.UNSUPPORTED),
        (b"PK\3\4 cut short", Refusal.DAMAGED),
        (docx(paragraph("words"))[:-30], Refusal.DAMAGED),
    ],
)
def test_what_we_do_not_read_is_refused_with_its_reason(data: bytes, refusal: Refusal) -> None:
    with pytest.raises(DocumentRefused) as caught:
        sniff(data, "named.txt")
    assert (caught.value.category, caught.value.code) == (Category.INVALID_DOCUMENT, refusal.value)


def test_a_locked_archive_is_known_by_its_table_of_contents() -> None:
    data = bytearray(docx(paragraph("words")))
    position = data.index(b"PK\x01\x02")
    data[position + 8] |= 1
    with pytest.raises(DocumentRefused, match="locked"):
        sniff(bytes(data), None)


def test_an_archive_that_declares_too_much_is_refused_at_the_door() -> None:
    data = docx(paragraph("A" * 5000), ("word/media/picture.bmp", b"\0" * 100_000))
    assert sniff(data, None, max_unpacked_bytes=20_000) == Kind.DOCX  # pictures are never unpacked
    with pytest.raises(DocumentRefused, match="too_large_unpacked"):
        sniff(data, None, max_unpacked_bytes=5_000)
    with pytest.raises(DocumentRefused, match="too_large_unpacked"):
        sniff(case_file("D07"), None)


def test_a_table_of_contents_without_end_is_not_even_parsed() -> None:
    entry = struct.pack("<4s42x", b"PK\x01\x02")
    with pytest.raises(DocumentRefused, match="too_large_unpacked"):
        sniff(b"PK\3\4" + entry * 20_000, None)
