from __future__ import annotations

import pytest

from tasks.intake import DocumentRefused
from tasks.intake.formats.rtf import rtf_to_text

FONTS = rb"{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset204 Times;}{\f2\fcharset128 Mincho;}}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (rb"{\rtf1\ansi Caf\'e9 \'8012 \u8364? \ldblquote q\rdblquote\emdash{\b bold}\b0  x\par next\line l\tab t}",
         "Café €12 € “q”—bold x\nnext\nl\tt"),
        (rb"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}", "Привет"),
        (rb"{\rtf1\ansicpg1252\deff0" + FONTS + rb"{\f1 \'cf\'f0}\'e9 {\f2\'89\'ef\'8b\'63 \'83e}}", "Прé 会議 テ"),
        (rb"{\rtf1\ansi\deff1" + FONTS + rb"\'cf\'f0}", "Пр"),
        (rb"{\rtf1 \u55357?\u56832? \uc2\u8364 EUx\uc0\u8364 y \uc1\u-3913?z}", "\ud83d\ude00 €x€y •z"),
        (rb"{\rtf1 a{\v X}b{\deleted X}c\v X\v0 d{\v X\plain e}}", "abcde"),
        (rb"{\rtf1{\info{\title X}}{\*\generator X;}{\pict\pngblip 8950}{\object X}a{\*\shppict{\pict 00}}}", "a"),
        (rb"{\rtf1{\field{\*\fldinst HYPERLINK X}{\fldrslt link}}{\footnote note}}", "link note"),
        (b"{\\rtf1 a{\\pict\\bin6 }}}}}}} b}", "a b"),
        (rb"{\rtf1\trowd\cellx1\cellx2 A\cell B\cell\row\trowd C\cell\row}", "A\tB\nC"),
        (rb"{\rtf1 \{brace\} \\ a\~b\_c\-d}", "{brace} \\ a\xa0b-cd"),
        (b"{\\rtf1 a\r\nb}\0\0 trailing", "ab"),
    ],
)  # fmt: skip
def test_text_comes_out_as_a_reader_shows_it(source: bytes, expected: str) -> None:
    assert rtf_to_text(source, 1_000) == expected


@pytest.mark.parametrize("source", [rb"{\rtf1 cut {\b sho", b"{\\rtf1" + b"{" * 100_000, b"{\\rtf1\\bin99999 x}"])
def test_rtf_without_its_end_is_refused_and_not_passed_off_as_a_whole(source: bytes) -> None:
    with pytest.raises(DocumentRefused, match="damaged"):
        rtf_to_text(source, 1_000)


def test_rtf_with_too_many_characters_is_given_up_early() -> None:
    with pytest.raises(DocumentRefused, match="too_long"):
        rtf_to_text(rb"{\rtf1 " + b"abc\\par " * 1_000 + b"}", 1_000)
