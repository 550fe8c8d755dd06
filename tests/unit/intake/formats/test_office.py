from __future__ import annotations

import pytest

from tasks.intake import DocumentRefused
from tasks.intake.formats.office import docx_to_text, odt_to_text
from tasks.intake.formats.zip_archive import open_archive, read_parts
from tests.support.documents.office import docx, odt, paragraph, zipped

MANY = 10_000_000


def word(body: str, *more: tuple[str, str | bytes]) -> str:
    return docx_to_text(docx(body, *more), MANY, MANY)[0]


def opendocument(body: str, *more: tuple[str, str], styles: str = "") -> str:
    return odt_to_text(odt(body, *more, styles=styles), MANY, MANY)[0]


def test_every_character_of_a_word_document_is_kept() -> None:
    assert word(paragraph("Smith &amp; Sons: 5 &lt; 6, caf&#233; 😀 *x* [y](z)")) == (
        "Smith & Sons: 5 < 6, café 😀 *x* [y](z)"
    )


def test_tabs_breaks_lists_and_tables_keep_words_apart() -> None:
    row = "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in ("1", "", "3")) + "</w:tr>"
    body = (
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>"
        f"<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p><w:tbl>{row}{row}</w:tbl>"
    )
    assert word(body) == "a\tb\nc\n- item\n1\t\t3\n1\t\t3"


def test_deleted_hidden_and_commented_text_is_not_read() -> None:
    body = (
        "<w:p><w:del><w:r><w:delText>X</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>"
        + paragraph("X", "<w:rPr><w:vanish/></w:rPr>")
        + paragraph("seen", '<w:rPr><w:vanish w:val="0"/></w:rPr>')
        + "<w:p><w:r><w:instrText>X</w:instrText></w:r></w:p>"
    )
    comments = ("word/comments.xml", f"<w:comments {{w}}><w:comment>{paragraph('X')}</w:comment></w:comments>")
    assert word(body, comments).split() == ["new", "seen"]


def test_headers_notes_and_footers_are_read_once() -> None:
    header = f"<w:hdr {{w}}>{paragraph('Harbour office')}</w:hdr>"
    notes = (
        '<w:footnotes {w}><w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>X</w:t></w:r></w:p></w:footnote>'
        f'<w:footnote w:id="1">{paragraph("see there")}</w:footnote></w:footnotes>'
    )
    body = '<w:p><w:r><w:t>text</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'
    parts = [("word/header1.xml", header), ("word/header2.xml", header), ("word/footnotes.xml", notes)]
    assert word(body, *parts) == "Harbour office\n\ntext[1]\n\n[1] see there"


def test_every_character_of_an_opendocument_text_is_kept() -> None:
    body = (
        "<text:h>Head</text:h><text:p>Smith &amp; <text:span>Sons</text:span><text:s text:c='2'/>é😀<text:tab/>t"
        "<text:line-break/>next<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>see</text:p>"
        "</text:note-body></text:note> end</text:p><text:list><text:list-item><text:p>item</text:p></text:list-item>"
        "</text:list><table:table><table:table-row><table:table-cell><text:p>1</text:p></table:table-cell>"
        "<table:table-cell><text:p>2</text:p></table:table-cell></table:table-row></table:table>"
    )
    assert opendocument(body) == "Head\nSmith & Sons  é😀\tt\nnext[1] end\n- item\n1\t2\n[1] see"


def test_deleted_and_hidden_text_of_an_opendocument_is_not_read() -> None:
    styles = '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
    body = (
        "<text:tracked-changes><text:deletion><text:p>X</text:p></text:deletion></text:tracked-changes>"
        "<text:p>seen<text:span text:style-name='H'>X</text:span><office:annotation><text:p>X</text:p>"
        "</office:annotation><svg:title>X</svg:title></text:p>"
    )
    assert opendocument(body, styles=styles) == "seen"


@pytest.mark.parametrize(
    "data",
    [
        docx(paragraph("a") + "<w:p><w:r><w:t>never closed"),
        docx(paragraph("&e;"), head='<!DOCTYPE d [<!ENTITY e "made up">]>'),
        zipped(("[Content_Types].xml", ""), ("word/document.xml", b"\xff\xfe\0")),
    ],
)
def test_half_a_word_document_is_refused_and_not_passed_off_as_a_whole(data: bytes) -> None:
    with pytest.raises(DocumentRefused, match="damaged"):
        docx_to_text(data, MANY, MANY)


def test_an_opendocument_with_a_password_is_locked() -> None:
    data = zipped(
        ("META-INF/manifest.xml", "<m><manifest:encryption-data/></m>"), ("content.xml", b"\x8f\x11\x02gibberish")
    )
    with pytest.raises(DocumentRefused, match="locked"):
        odt_to_text(data, MANY, MANY)


def test_the_sum_over_all_parts_is_bounded_while_unpacking() -> None:
    data = docx(paragraph("A" * 6_000), ("word/footnotes.xml", f"<w:footnotes {{w}}>{'A' * 6_000}</w:footnotes>"))
    names = ["word/document.xml", "word/footnotes.xml"]
    assert len(read_parts(open_archive(data), names, 20_000)) == 2
    with pytest.raises(DocumentRefused, match="too_large_unpacked"):
        read_parts(open_archive(data), names, 10_000)
    with pytest.raises(DocumentRefused, match="too_large_unpacked"):
        docx_to_text(data, 10_000, MANY)


def test_an_archive_that_lies_about_its_size_is_not_unpacked_beyond_it() -> None:
    data = bytearray(docx(paragraph("A" * 3_000_000)))
    real = open_archive(bytes(data)).getinfo("word/document.xml").file_size.to_bytes(4, "little")
    assert data.count(real) == 2
    lying = bytes(data).replace(real, (1_000).to_bytes(4, "little"))
    with pytest.raises(DocumentRefused, match="damaged"):
        docx_to_text(lying, 100_000, MANY)


def test_a_document_with_too_many_characters_is_given_up_early() -> None:
    with pytest.raises(DocumentRefused, match="too_long"):
        docx_to_text(docx(paragraph("A" * 1_000) * 10), MANY, 1_000)
