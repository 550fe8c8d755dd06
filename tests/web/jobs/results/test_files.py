"""The result as a Word document and as plain text: all of its words, and nothing active."""

from __future__ import annotations

import io
import re
from pathlib import Path
from zipfile import ZipFile

import pytest
from docx import Document
from docx.document import Document as WordDocument

from tasks.ledger.jobs import transitions
from tests.support import factories
from tests.web.conftest import Person, WebHarness
from webapp.jobs.results.docx import as_word
from webapp.jobs.results.plain_text import as_text

FILES = Path(__file__).parents[3] / "support" / "files"
MARKDOWN = """# Harbour

The **north pier** is *closed* ~~open~~, see [the minutes](https://a.example/m).

- costs
  1. first
  2. second
- dates

> Anna repairs it.

| Who | What |
| --- | --- |
| Zoë | paint |

```
a  b
```
"""


def opened(content: bytes) -> WordDocument:
    return Document(io.BytesIO(content))


def test_plain_text_has_the_words_without_the_signs() -> None:
    assert as_text(MARKDOWN) == (
        "Harbour\n\nThe north pier is closed open, see the minutes (https://a.example/m).\n\n"
        "- costs\n  1. first\n  2. second\n- dates\n\nAnna repairs it.\n\n"
        "Who | What\nZoë | paint\n\na  b\n"
    )


def test_a_word_document_has_headings_marks_lists_and_tables() -> None:
    document = opened(as_word(MARKDOWN, title="Summary of x", notes=["Made by an AI service."]))
    written = [(paragraph.style.name, paragraph.text) for paragraph in document.paragraphs if paragraph.style]
    assert written == [
        ("Heading 1", "Summary of x"),
        ("Heading 2", "Harbour"),
        ("Normal", "The north pier is closed open, see the minutes (https://a.example/m)."),
        ("List Bullet", "costs"),
        ("List Number 2", "first"),
        ("List Number 2", "second"),
        ("List Bullet", "dates"),
        ("Quote", "Anna repairs it."),
        ("No Spacing", "a  b"),
        ("Caption", "Made by an AI service."),
    ]
    runs = {run.text: (run.bold, run.italic, run.font.strike) for run in document.paragraphs[2].runs}
    assert runs["north pier"] == (True, None, None)
    assert runs["closed"] == (None, True, None)
    assert runs["open"] == (None, None, True)
    (table,) = document.tables
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["Who", "What"], ["Zoë", "paint"]]


@pytest.mark.parametrize("name", ["W07_xss_payloads.md", "W08_injection_markdown_image.txt"])
def test_a_hostile_result_is_a_word_document_that_reaches_nowhere(name: str) -> None:
    content = as_word((FILES / name).read_text(), title="x\0\ud800\x1b", notes=[])
    opened(content)
    with ZipFile(io.BytesIO(content)) as parts:
        everything = "".join(parts.read(part).decode() for part in parts.namelist() if part.endswith((".xml", ".rels")))
    assert "<w:hyperlink" not in everything
    assert 'TargetMode="External"' not in everything


@pytest.mark.parametrize(
    "text", ["", "\0", "\x0b\x1f\ud800 \ufffe", "- " * 200 + "x", "|a|\n|-|\n", "> " * 50], ids=range(6)
)
def test_whatever_the_text_is_both_files_can_be_made(text: str) -> None:
    opened(as_word(text, title=text, notes=[text]))
    as_text(text)


def test_both_are_offered_beside_markdown_and_to_their_owner_only(ada: Person, bob: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded("The pier is **closed**.", title="Отчёт")
    page = ada.get(f"/jobs/{job_id}").text
    for ending, kind in (("txt", "text/plain"), ("docx", "application/vnd.openxml"), ("md", "text/markdown")):
        assert f'href="/jobs/{job_id}/result.{ending}"' in page
        answer = ada.get(f"/jobs/{job_id}/result.{ending}")
        assert answer.status_code == 200 and answer.content_type.startswith(kind)
        assert answer.headers["Content-Disposition"].startswith("attachment; ")
        assert bob.get(f"/jobs/{job_id}/result.{ending}").status_code == 404
    assert ada.get(f"/jobs/{job_id}/result.txt").text == "The pier is closed.\n"
    word = opened(ada.get(f"/jobs/{job_id}/result.docx").data)
    assert word.paragraphs[0].text == "Summary of Отчёт"


def test_the_page_says_what_made_the_result(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.succeeded()}").text
    assert "Extract made on this server, without an AI service. Addresses in it come from the document." in page
    assert re.search(r"Summary, medium, prose, version 1, saved [-0-9]+ [:0-9]+ UTC", page)
    assert re.search(r"Reference WB-\w{4}-\w{4}\.", page)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("one-mini", "AI model one-mini. Addr"),
        ("one-mini-2", "one-mini · one-mini-2. Addr"),
        ("one", "one-mini · one. A"),
    ],
)
def test_the_model_is_named_twice_only_where_another_one_answered(
    ada: Person, bench: WebHarness, model: str, expected: str
) -> None:
    job_id = bench.job()
    facts = {"label": "Made by the AI model one-mini", "provider": "openai", "model": model}
    with bench.database.transaction() as session:
        transitions.succeed(session, factories.claim(session, job_id), text="The pier is closed.", facts=facts)
    assert expected in ada.get(f"/jobs/{job_id}").text
