"""Tests Word, OpenDocument and RTF files of the same kinds as the case files, in other variants."""

from __future__ import annotations

import gzip

import pytest

from tasks.intake import DocumentRefused, IntakePool, Kind, Limits, Refusal
from tests.support.documents.office import docx, odt, paragraph, zipped

BIG = b"<w:p/>" * 1_500_000
BOX = "<w:txbxContent>" + paragraph("in the box") + "</w:txbxContent>"
LAUGHS = "<!DOCTYPE d [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {name} '{f'&{inner};' * 10}'>" for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
)  # fmt: skip
GHOST, SEEN = (f"<w:rPr><w:rStyle w:val='{name}'/></w:rPr>" for name in ("Ghost", "Seen"))
HIDDEN_STYLES = (
    "<w:styles {w}><w:style w:styleId='Ghost'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:styleId='Heir'><w:basedOn w:val='Ghost'/></w:style>"
    "<w:style w:styleId='Seen'><w:basedOn w:val='Ghost'/><w:rPr><w:vanish w:val='0'/></w:rPr></w:style></w:styles>"
)


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def cells(*texts: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in texts) + "</w:tr>"


def two_ways(choice: str, fallback: str) -> str:
    return (
        '<mc:AlternateContent xmlns:mc="mc"><mc:Choice Requires="wps">'
        f"{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent>"
    )


CASES: list[tuple[str, bytes, str | Refusal]] = [
    ("D04 word cut in half", (whole := docx(paragraph("words " * 50)))[: len(whole) // 2], Refusal.DAMAGED),
    ("D04 word with a byte changed", whole.replace(b"word/document.xml", b"word/documenX.xml", 1), Refusal.DAMAGED),
    ("D04 rtf that stops", rb"{\rtf1\ansi The pier is {\b clo", Refusal.DAMAGED),
    (
        "D07 many headers that are too much together",
        docx(paragraph("x"), *((f"word/header{n}.xml", b"<w:hdr>" + BIG[:6_000_000]) for n in range(7))),
        Refusal.TOO_LARGE_UNPACKED,
    ),
    ("D07 an opendocument", odt("<text:p>" + "a" * 34_000_000 + "</text:p>"), Refusal.TOO_LARGE_UNPACKED),
    ("D07 entities of entities", docx(paragraph("&i;"), head=LAUGHS + "]>"), Refusal.DAMAGED),
    ("D07 elements in elements", docx("<w:p>" * 5_000 + run("deep") + "</w:p>" * 5_000), "deep"),
    (
        "D08 a spreadsheet",
        zipped(("[Content_Types].xml", "<Types/>"), ("xl/workbook.xml", "<x/>")),
        Refusal.UNSUPPORTED,
    ),
    (
        "D08 a book",
        zipped(("mimetype", "application/epub+zip"), ("META-INF/container.xml", "<x/>")),
        Refusal.UNSUPPORTED,
    ),
    ("D08 packed text", gzip.compress(b"words " * 100), Refusal.UNSUPPORTED),
    ("D08 rich text", rb"{\rtf1\ansi The pier is closed.}", "The pier is closed."),
    ("D08 an opendocument", odt("<text:p>The pier is closed.</text:p>"), "The pier is closed."),
    ("D08 a page", b"<!doctype html><title>Pier</title><p>It is closed.", "Pier\n\nIt is closed."),
    ("D16 word with empty paragraphs", docx("<w:p/><w:p><w:r><w:br/></w:r></w:p>"), Refusal.NO_TEXT),
    ("D16 an empty opendocument", odt("<text:p/><text:p> </text:p>"), Refusal.NO_TEXT),
    ("D16 empty rich text", rb"{\rtf1\ansi\par\par }", Refusal.NO_TEXT),
    (
        "word: a table in a table",
        docx(
            f"<w:tbl><w:tr><w:tc>{paragraph('a')}<w:tbl>{cells('1', '2')}</w:tbl><w:p/></w:tc>"
            f"<w:tc>{paragraph('b')}</w:tc></w:tr>"
            f"{cells('c', 'd')}</w:tbl>"
        ),
        "a\n1\t2\tb\nc\td",
    ),
    (
        "word: a text box, drawn in two ways",
        docx(
            f"<w:p>{run('before')}<w:r>"
            + two_ways(f"<w:drawing>{BOX}</w:drawing>", f"<w:pict>{BOX}</w:pict>")
            + f"</w:r>{run('after')}</w:p>"
        ),
        "before\nin the box\nafter",
    ),
    (
        "word: a text box of an old Word",
        docx(f"<w:p><w:r><w:pict>{BOX}</w:pict></w:r>{run('after')}</w:p>"),
        "in the box\nafter",
    ),
    (
        "word: a box in a hidden run",
        docx(f"<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:drawing>{BOX}</w:drawing></w:r>{run('seen')}</w:p>"),
        "seen",
    ),
    (
        "word: tracked changes",
        docx(
            f"<w:p>{run('The pier is ')}<w:del w:id='1'><w:r><w:delText>open</w:delText></w:r></w:del>"
            f"<w:ins w:id='2'>{run('closed')}</w:ins>{run('.')}</w:p><w:p><w:moveFrom>{run('X')}</w:moveFrom></w:p>"
            f"<w:p><w:moveTo>{run('Moved here.')}</w:moveTo></w:p>"
        ),
        "The pier is closed.\n\nMoved here.",
    ),
    (
        "word: notes, headers and footers",
        docx(
            "<w:p><w:r><w:t>text</w:t><w:endnoteReference w:id='2'/></w:r></w:p>",
            ("word/header1.xml", f"<w:hdr {{w}}>{paragraph('Top')}</w:hdr>"),
            ("word/footer1.xml", f"<w:ftr {{w}}>{paragraph('Bottom')}</w:ftr>"),
            (
                "word/endnotes.xml",
                f"<w:endnotes {{w}}><w:endnote w:id='2'>{paragraph('a note')}</w:endnote></w:endnotes>",
            ),
        ),
        "Top\n\ntext[2]\n\n[2] a note\n\nBottom",
    ),
    (
        "word: hidden by a style",
        docx(
            f"<w:p><w:pPr><w:pStyle w:val='Heir'/></w:pPr>{run('X')}</w:p>"
            f"<w:p>{run('seen ')}{run('X', GHOST)}"
            f"{run('too', SEEN)}</w:p>",
            ("word/styles.xml", HIDDEN_STYLES),
        ),
        "seen too",
    ),
    (
        "odt: a box, a note, a header, a change",
        odt(
            "<text:tracked-changes><text:changed-region><text:deletion><text:p>X</text:p></text:deletion>"
            "</text:changed-region></text:tracked-changes><text:p>before<draw:frame xmlns:draw='d'><draw:text-box>"
            "<text:p>boxed</text:p></draw:text-box>"
            "</draw:frame>after <text:change-start/>inserted<text:change-end/></text:p>",
            ("styles.xml", "<o xmlns:text='t' xmlns:style='s'><style:header><text:p>Top</text:p></style:header></o>"),
        ),
        "Top\n\nbefore\nboxed\nafter inserted",
    ),
    (
        "rtf: a table, a note, a header",
        (
            rb"{\rtf1\ansi{\header Top\par}\trowd\cellx1\cellx2 a\cell b\cell\row "
            rb"text{\footnote note} {\deleted X}{\revised new}\par}"
        ),
        "Top\na\tb\ntext note new",
    ),
]


@pytest.mark.parametrize(("data", "outcome"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_ends_as_its_kind_does(pool: IntakePool, data: bytes, outcome: str | Refusal) -> None:
    assert len(data) < 200_000
    if isinstance(outcome, Refusal):
        with pytest.raises(DocumentRefused) as caught:
            pool.read(data, "report.docx", Limits())
        assert caught.value.refusal is outcome
    else:
        assert pool.read(data, "report.docx", Limits()).text == outcome


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (docx(paragraph("words") + "<w:altChunk/><w:altChunk/>"), 2),
        (docx(paragraph("words"), ("word/charts/chart1.xml", "<c/>"), ("word/diagrams/data1.xml", "<d/>")), 2),
        (docx(paragraph("words"), ("word/embeddings/sheet1.xlsx", b"PK"), ("word/media/image1.png", b"\x89PNG")), 1),
        (odt("<text:p>words</text:p>", ("Object 1/content.xml", "<c/>")), 1),
    ],
    ids=["documents", "drawings", "files", "objects"],
)
def test_what_is_embedded_and_not_read_is_counted(pool: IntakePool, data: bytes, missing: int) -> None:
    reading = pool.read(data, None, Limits())
    assert (reading.text, reading.facts["embedded_unread"]) == ("words", missing)


def test_a_wrong_name_changes_nothing(pool: IntakePool) -> None:
    kinds = [
        pool.read(odt("<text:p>words</text:p>"), name, Limits()).kind for name in ("x.pdf", "x.doc", "x.txt", None)
    ]
    assert kinds == [Kind.ODT] * 4
