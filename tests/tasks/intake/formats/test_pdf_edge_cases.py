"""Tests PDF files of the same kinds as the case files, in other variants: each gives exactly one text or refusal."""

from __future__ import annotations

import pytest

from tasks.intake import DocumentRefused, IntakePool, Limits, Refusal
from tests.support.documents.office import docx, odt, paragraph, pdf, zipped
from tests.support.documents.pdf import FONT, WORDS, encrypted, form, page_of_words, pages, pdf_of, picture, stream

MIB = 1024 * 1024
OLE = bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 504
ODT_TYPE = ("mimetype", "application/vnd.oasis.opendocument.text")
LOCKED_PART = '<m:manifest xmlns:m="m"><m:file-entry m:full-path="{}"><m:encryption-data/></m:file-entry></m:manifest>'
GOOD = pages(page_of_words("The pier is closed."), page_of_words("Work starts in May."))
BOTH = "The pier is closed.\n\nWork starts in May."
DRAWN = stream(b"q 500 0 0 700 0 0 cm /X Do Q")
ONE_PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 600]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>>>>>"
CATALOGUE = b"<</Type/Catalog/Pages 2 0 R>>"


def one_page(tree: bytes, page: bytes = ONE_PAGE, **more: int) -> bytes:
    """Build a page with the text "words", under the page tree of the test."""
    return pdf_of(CATALOGUE, tree, FONT, page, stream(WORDS % b"words"), **more)


TREE = b"<</Type/Pages/Count 1/Kids[4 0 R]>>"
AS_EVER = one_page(TREE)

CASES: list[tuple[str, bytes, str | Refusal]] = [
    ("D01 aes-256", encrypted("secret words", user="u", owner="o", algorithm="AES-256"), Refusal.LOCKED),
    ("D01 aes-128", encrypted("secret words", user="u", owner="u", algorithm="AES-128"), Refusal.LOCKED),
    (
        "D01 only the owner has a password",
        encrypted("open words", user="", owner="o", algorithm="AES-256"),
        "open words",
    ),
    ("D01 the same with rc4", encrypted("open words", user="", owner="o", algorithm="RC4-40"), "open words"),
    ("D01 word in its container", OLE + "EncryptedPackage".encode("utf-16-le") + b"\0" * 512, Refusal.LOCKED),
    (
        "D01 opendocument, part by part",
        zipped(ODT_TYPE, ("META-INF/manifest.xml", LOCKED_PART.format("content.xml")), ("content.xml", b"\x8f\x11gib")),
        Refusal.LOCKED,
    ),
    (
        "D01 opendocument as a whole",
        zipped(
            ODT_TYPE, ("META-INF/manifest.xml", LOCKED_PART.format("encrypted-package")), ("encrypted-package", b"\x8f")
        ),
        Refusal.LOCKED,
    ),
    ("D02 three scanned pages", pages(DRAWN, DRAWN, DRAWN, extra=(picture(),)), Refusal.NO_TEXT),
    ("D02 lines and boxes only", pages(stream(b"0 0 m 100 100 l S 10 10 50 50 re f")), Refusal.NO_TEXT),
    ("D02 nothing but spaces", pages(page_of_words("   "), page_of_words(" ")), Refusal.NO_TEXT),
    ("D02 word with a picture only", docx("<w:p><w:r><w:drawing/></w:r></w:p>"), Refusal.NO_TEXT),
    ("D03 the table says it comes after itself", one_page(TREE, prev=-1), "words"),
    ("D03 a page tree that is its own child", one_page(b"<</Type/Pages/Count 2/Kids[2 0 R 4 0 R]>>"), "words"),
    (
        "D03 a drawing that draws itself",
        pages(stream(b"/X Do " + WORDS % b"words"), extra=(form(b"/X Do", 6),)),
        "words",
    ),
    (
        "D03 the tree has no other child",
        pdf_of(CATALOGUE, b"<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]>>"),
        Refusal.DAMAGED,
    ),
    ("D04 no table at all", AS_EVER[: AS_EVER.index(b"xref")] + b"trailer\n<</Root 1 0 R>>\n%%EOF", "words"),
    ("D04 mail headers before it", b"From: a@example.org\r\n\r\n" + GOOD, BOTH),
    ("D04 a thousand NULs behind it", GOOD + b"\0" * 1000, BOTH),
    ("D04 cut in its first objects", GOOD[:60], Refusal.DAMAGED),
    ("D04 only its table and end", b"%PDF-1.7\n" + GOOD[GOOD.index(b"xref") :], Refusal.DAMAGED),
    ("D04 no pages", pdf_of(CATALOGUE, b"<</Type/Pages/Count 0/Kids[]>>"), Refusal.DAMAGED),
    ("D06 said to have a thousand million pages", one_page(b"<</Type/Pages/Count 1000000000/Kids[4 0 R]>>"), "words"),
    (
        "D06 the same page again and again",
        one_page(b"<</Type/Pages/Count 2001/Kids[%s]>>" % (b"4 0 R " * 2001)),
        Refusal.TOO_MANY_PAGES,
    ),
    ("D06 a page without a size", pages(page_of_words("words"), box=b"0 0 0 0"), "words"),
    ("D06 a page that is inside out", pages(page_of_words("words"), box=b"600 600 0 0"), "words"),
    ("D06 units as large as houses", pages(page_of_words("words"), more=b"/UserUnit 1000000/Rotate 90"), "words"),
    ("D09 NULs between letters", pages(stream(b"BT /F 12 Tf 50 400 Td (Pi\\000er \\000report) Tj ET")), "Pier report"),
]
BOMBS = [
    ("packed three times", pages(stream(b" " * 150_000_000, "FlateDecode", "FlateDecode", "FlateDecode"))),
    (
        "a page of one million words",
        pages(stream(b"BT /F 12 Tf 50 400 Td " + b"(word) Tj " * 1_000_000 + b"ET", "FlateDecode")),
    ),
    (
        "drawings of drawings",
        pages(stream(b"/X Do"), extra=(*(form(b"/X Do " * 10, 7 + at) for at in range(12)), form(WORDS % b"x", 3))),
    ),
]


@pytest.mark.parametrize(("data", "outcome"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_ends_as_its_kind_does(pool: IntakePool, data: bytes, outcome: str | Refusal) -> None:
    if isinstance(outcome, Refusal):
        with pytest.raises(DocumentRefused) as caught:
            pool.read(data, "report.pdf", Limits())
        assert caught.value.refusal is outcome
    else:
        assert pool.read(data, "report.pdf", Limits()).text == outcome


@pytest.mark.parametrize("data", [case[1] for case in BOMBS], ids=[case[0] for case in BOMBS])
def test_what_unpacks_to_much_is_stopped_by_memory_and_the_next_is_read(pool: IntakePool, data: bytes) -> None:
    assert len(data) < 200_000
    with pytest.raises(DocumentRefused, match="too_much_memory"):
        pool.read(data, None, Limits(memory_bytes=48 * MIB))
    assert pool.read(GOOD, None, Limits()).text == BOTH


def test_a_picture_said_to_be_huge_and_fifty_thousand_empty_objects_cost_nothing(pool: IntakePool) -> None:
    small = Limits(memory_bytes=48 * MIB)
    huge = pages(stream(b"/X Do " + WORDS % b"words"), extra=(picture(30_000),))
    assert pool.read(huge, None, small).text == "words"
    assert pool.read(pages(page_of_words("words"), extra=(b"<<>>",) * 20_000), None, small).text == "words"


def test_pages_without_text_are_counted(pool: IntakePool) -> None:
    mixed = pages(page_of_words("first"), DRAWN, DRAWN, page_of_words("last"), extra=(picture(),))
    reading = pool.read(mixed, None, Limits())
    assert (reading.text, reading.facts["pages"], reading.facts["pages_with_text"]) == ("first\n\nlast", 4, 2)
    assert pool.read(odt("<text:p>words</text:p>"), None, Limits()).facts.keys() == {"characters", "words"}
    assert pool.read(docx(paragraph("words")), None, Limits()).facts.keys() == {"characters", "words"}
    assert pool.read(pdf("words"), None, Limits()).facts["pages_with_text"] == 1
