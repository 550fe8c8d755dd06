"""Bad and good documents in one real worker: each bad document fails at once, with a message, and harms no other."""

from __future__ import annotations

import uuid

import pytest
from flask import Flask

from tasks.intake import Refusal
from tasks.ledger.states import State
from tests.support.documents.office import case_file, docx, paragraph
from tests.support.documents.pdf import encrypted, page_of_words, pages, stream
from tests.support.site import Opened
from tests.web.conftest import Person

SCAN = stream(b"0 0 m 9 9 l S")
BAD = [
    ("bomb.pdf", case_file("D05"), Refusal.TOO_MUCH_MEMORY, "too much memory to be read"),
    ("locked.pdf", encrypted("x", user="u", owner="o", algorithm="AES-256"), Refusal.LOCKED, "locked with a password"),
    ("scan.pdf", pages(SCAN, SCAN), Refusal.NO_TEXT, "Most likely it holds scanned pages"),
    ("torn.docx", docx(paragraph("a") + "<w:p><w:r>"), Refusal.DAMAGED, "damaged or incomplete"),
    ("pages.pdf", case_file("D06a"), Refusal.TOO_MANY_PAGES, "too many pages"),
    ("long.txt", b"word " * 60_000, Refusal.TOO_LONG, "too much text"),
]
GOOD = [
    (
        "mixed.pdf",
        pages(page_of_words("The pier is shut."), SCAN, page_of_words("Until May.")),
        "2 of 3 pages had text",
    ),
    ("old.txt", "Die Größe der Brücke ändert sich.".encode("cp1252"), "encoding Windows-1252"),
    ("stray.txt", "Größe, Brücke, Übung. ".encode() * 5 + b"\xff", "1 unreadable character was replaced"),
    (
        "chart.docx",
        docx(paragraph("The pier."), ("word/charts/chart1.xml", "<c/>")),
        "1 embedded chart, diagram or file was not read",
    ),
]


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_bad_documents_end_in_words_and_the_good_ones_behind_them_are_read(
    site: Opened, app: Flask, account_id: uuid.UUID
) -> None:
    person = Person(app, account_id)
    with site({"mode": "ok"}, slots=2) as here:
        bad = [(here.submit(data, title=name), refusal, said) for name, data, refusal, said in BAD]
        good = [(here.submit(data, title=name), said) for name, data, said in GOOD]
        for job, refusal, said in bad:
            view = here.wait_for(job, State.FAILED, within=60)
            assert (view.error_category, view.error_code, view.attempt) == ("invalid_document", refusal, 1)
            assert here.outcomes(job) == ["failed"] and here.calls(job) == []
            assert said in person.get(f"/jobs/{job}").text
        for job, said in good:
            here.wait_for(job, State.SUCCEEDED, within=60)
            assert said in person.get(f"/jobs/{job}").text
        assert len(here.fake.requests) == len(GOOD)
        assert here.worker.popen.poll() is None
