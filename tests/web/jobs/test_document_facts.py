"""The facts about the document on a job's page: only what was measured, and the beginning of the text."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from tasks.database import Database
from tasks.intake.extract import extract
from tasks.intake.types import Limits
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.reports import job_views
from tests.web.conftest import Person, WebHarness
from webapp.jobs.document_facts import beginning_of, encoding_in_words, main_measure, what_was_read

PDF = {"pages": 12, "pages_with_text": 11, "words": 8410, "characters": 50_000}


@pytest.mark.parametrize(
    ("facts", "parts", "expected"),
    [
        (PDF, 1, "11 of 12 pages had text, 8,410 words"),
        ({**PDF, "pages_with_text": 12}, 9, "12 pages, 8,410 words, read in 9 parts"),
        ({"pages": 1, "pages_with_text": 0}, 0, "0 of 1 page had text"),
        ({**PDF, "pages_damaged": 1}, 1, "11 of 12 pages had text, 8,410 words, 1 page was damaged"),
        ({"words": 1, "encoding": "cp1252"}, 1, "1 word, encoding Windows-1252"),
        ({"words": 2, "encoding": "utf-8", "replaced_bytes": 0}, 1, "2 words"),
        (
            {"words": 2, "encoding": "utf-8", "replaced_bytes": 3},
            1,
            "2 words, 3 unreadable characters were replaced",
        ),
        ({"rows": 40, "columns": 5, "words": 90}, 1, "40 rows × 5 columns, 90 words"),
        ({"characters": 9}, 1, None),
        ({}, 0, None),
        ({"words": "many", "pages": True, "encoding": 7}, 1, None),
    ],
    ids=range(11),
)
def test_the_line_holds_what_was_measured_and_nothing_else(
    facts: dict[str, Any], parts: int, expected: str | None
) -> None:
    assert what_was_read(facts, parts) == expected


def test_the_stop_shows_one_number() -> None:
    assert main_measure(PDF) == "12 pages"
    assert main_measure({"rows": 1, "words": 5}) == "1 row"
    assert main_measure({"words": 0}) == "0 words"
    assert main_measure(None) is main_measure({}) is None


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", None),
        ("utf-16-le", "UTF-16"),
        ("iso8859-2", "ISO 8859-2"),
        ("koi8_r", "KOI8-R (Cyrillic)"),
        ("cp1250", "Windows-1250 (Central European)"),
        ("mac-roman", "Mac OS Roman"),
    ],
)
def test_encodings_have_the_names_people_know(encoding: str, expected: str | None) -> None:
    assert encoding_in_words(encoding) == expected


def test_a_beginning_is_short_and_ends_between_two_characters() -> None:
    assert beginning_of(" \n Short.\n") == "Short."
    family = "👨‍👩‍👧‍👦"
    assert re.fullmatch(f"({family})+…", beginning_of(family * 100))


def read(bench: WebHarness, database: Database, content: bytes) -> uuid.UUID:
    """Return a job whose document was extracted by the real reader."""
    reading = extract(content, None, Limits())
    job_id = bench.job()
    claim = bench.claim(job_id)
    with database.transaction() as session:
        saved = SavedStep(reading.text, {**reading.facts, "kind": str(reading.kind)})
        checkpoints.save(session, claim, "read", saved, next_step="summarise", done=0, total=1)
        transitions.succeed(session, claim, text="Done.", facts={})
    return job_id


def test_a_person_sees_that_the_encoding_was_understood(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = read(bench, database, "Größe und Übermaß: <b>fünf</b> Straßen".encode("cp1252"))
    page = ada.get(f"/jobs/{job_id}").text
    assert "Read: 5 words, encoding Windows-1252." in page
    shown = "Größe und Übermaß: &lt;b&gt;fünf&lt;/b&gt; Straßen"
    assert f'<summary>How the text begins</summary><p dir="auto" lang="">{shown}</p>' in page


def test_only_the_beginning_is_shown(ada: Person, bench: WebHarness, database: Database) -> None:
    page = ada.get(f"/jobs/{read(bench, database, b'word ' * 500 + b'SECRET')}").text
    assert page.count("word ") < 50 and "SECRET" not in page and "word…" in page


def test_nothing_is_said_before_it_was_read(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.job()}").text
    assert "Read:" not in page and "How the text begins" not in page


def test_the_beginning_is_the_owners(bench: WebHarness, bob: Person, database: Database) -> None:
    job_id = read(bench, database, b"Private words.")
    with database.transaction() as session:
        assert job_views.beginning_of(session, job_id, bench.owner, 7) == "Private"
        assert job_views.beginning_of(session, job_id, bob.id, 7) is None
    assert bob.get(f"/jobs/{job_id}").status_code == bob.get(f"/jobs/{job_id}/status").status_code == 404
