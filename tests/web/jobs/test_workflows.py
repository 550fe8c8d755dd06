"""The choice of a workflow, on the form and in the API."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from tasks.database import Database
from tasks.ledger.models import Job
from tests.web.conftest import Person, job_id_in, rows
from webapp.auth import api_tokens

QUESTIONS = {"workflow": "questions_answered", "questions_answered-questions": "Who repairs it?\n\n By when?\n"}


@pytest.fixture
def asking(make_app: Callable[..., Flask]) -> Flask:
    """Return the app of a site with an AI service."""
    return make_app(ai_provider="openai")


@pytest.fixture
def eve(asking: Flask, account_id: uuid.UUID) -> Person:
    """Return a user of that site."""
    return Person(asking, account_id)


@pytest.fixture
def send(asking: Flask, database: Database, account_id: uuid.UUID) -> Callable[..., Any]:
    """Return a function that submits a job by the API of that site."""
    with database.transaction() as session:
        token = api_tokens.make_token(session, account_id, "test")

    def send(app: Flask = asking, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return app.test_client(use_cookies=False).post("/api/v1/jobs", headers=headers, json={"text": "Text.", **body})

    return send


def jobs(database: Database) -> int:
    return rows(database, select(func.count()).select_from(Job))[0][0]


def chosen(page: str) -> list[str]:
    return re.findall(r'name="workflow" value="(\w+)" checked', page)


def test_every_workflow_is_offered_with_its_hint_and_options_and_the_summary_is_chosen(eve: Person) -> None:
    page = eve.get("/").text
    assert re.findall(r'name="workflow" value="(\w+)"', page) == ["summary", "action_items", "questions_answered"]
    assert chosen(page) == ["summary"]
    assert "What would you like to get?" in page and "Who must do what by when, as a table." in page
    assert 'name="summary-length" value="medium" checked' in page
    assert '<textarea id="questions_answered-questions"' in page and "One per line, up to five." in page
    names = re.findall(r'(?:radio|textarea|select)[^>]* name="([^"]+)"', page)
    assert all(name.split("-")[0] in ("workflow", "text", "summary", "questions_answered") for name in names), names


def test_without_an_ai_service_there_is_nothing_to_choose(ada: Person) -> None:
    page = ada.get("/").text
    assert 'name="workflow"' not in page and "action_items" not in page
    assert 'name="summary-length" value="medium" checked' in page and "Upload or paste a document" in page


def test_what_needs_an_ai_service_is_refused_in_words_where_there_is_none(
    app: Flask, ada: Person, send: Callable[..., Any], database: Database
) -> None:
    answer = ada.paste("kept", workflow="action_items")
    assert answer.status_code == 422 and "kept" in answer.text
    assert '<p class="error" id="workflow-error">“Action items” needs an AI service' in answer.text
    refused = send(app, workflow="action_items")
    assert refused.status_code == 422 and refused.json["field"] == "workflow"
    assert "needs an AI service" in refused.json["detail"] and refused.json["code"] == "needs_ai"
    assert jobs(database) == 0


def test_the_chosen_workflow_takes_its_own_options_and_no_others(eve: Person, database: Database) -> None:
    answer = eve.paste("Minutes.", **QUESTIONS, **{"summary-length": "nonsense", "questions": "ignored"})
    job_id_in(answer)
    assert rows(database, select(Job.workflow, Job.options)) == [
        ("questions_answered", {"questions": ["Who repairs it?", "By when?"]})
    ]
    job_id_in(eve.paste("Minutes.", workflow="action_items", **{"questions_answered-questions": "?" * 999}))
    assert jobs(database) == 2


@pytest.mark.parametrize("typed", ["", " \n ", "1\n2\n3\n4\n5\n6", "x" * 301, "<b>\n" * 9])
def test_lines_that_will_not_do_are_refused_beside_the_field_and_everything_is_kept(
    eve: Person, database: Database, typed: str
) -> None:
    fields = {**QUESTIONS, "questions_answered-questions": typed, "title": "My title", "summary-length": "long"}
    answer = eve.paste("Minutes of May.", **fields)
    assert answer.status_code == 422
    message = "Write one to 5 lines of up to 300 characters each."
    assert f'<p class="error" id="questions_answered-questions-error">{message}</p>' in answer.text
    assert 'aria-describedby="questions_answered-questions-hint questions_answered-questions-error"' in answer.text
    assert chosen(answer.text) == ["questions_answered"]
    for kept in ("Minutes of May.", 'value="My title"', 'name="summary-length" value="long" checked'):
        assert kept in answer.text
    assert typed.replace("<", "&lt;").replace(">", "&gt;") in answer.text and "<b>" not in answer.text
    assert jobs(database) == 0


def test_an_unknown_workflow_is_refused_and_the_first_is_marked(eve: Person, database: Database) -> None:
    answer = eve.paste(workflow="nothing")
    assert answer.status_code == 422 and "This workflow does not exist." in answer.text
    assert chosen(answer.text) == ["summary"] and jobs(database) == 0


def test_a_form_that_is_too_old_keeps_the_questions(eve: Person) -> None:
    answer = eve.client.post("/jobs", data={"text": "Text", "csrf_token": "old", **QUESTIONS})
    assert answer.status_code == 400
    assert "By when?" in answer.text and chosen(answer.text) == ["questions_answered"]


@pytest.mark.parametrize("questions", [["Who?", "When?"], "Who?\nWhen?", " Who? \n\nWhen?"])
def test_a_program_gives_lines_as_a_list_or_as_text(
    send: Callable[..., Any], database: Database, questions: object
) -> None:
    answer = send(workflow="questions_answered", options={"questions": questions})
    assert answer.status_code == 202, answer.text
    assert answer.json["workflow"] == "questions_answered"
    assert answer.json["options"] == {"questions": ["Who?", "When?"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"workflow": "questions_answered"}, "questions"),
        ({"workflow": "questions_answered", "options": {"questions": ["?"] * 6}}, "questions"),
        ({"workflow": "questions_answered", "options": {"questions": [{"a": 1}]}}, "questions"),
        ({"workflow": "questions_answered", "options": {"questions": None}}, "questions"),
        ({"workflow": "action_items", "options": {"length": "short"}}, "options"),
        ({"workflow": "summary", "options": {"length": "huge"}}, "length"),
        ({"workflow": "nothing"}, "workflow"),
        ({"workflow": ["summary"]}, "workflow"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_program_is_told_which_option_is_wrong(
    send: Callable[..., Any], database: Database, body: dict[str, Any], field: str
) -> None:
    answer = send(**body)
    assert answer.status_code == 422 and answer.content_type == "application/problem+json"
    assert answer.json["field"] == field and answer.json["detail"]
    assert jobs(database) == 0


def test_a_job_whose_work_needs_what_is_gone_is_not_offered_again(eve: Person, ada: Person, database: Database) -> None:
    job_id = job_id_in(eve.paste("Minutes.", workflow="action_items"))
    eve.post(f"/jobs/{job_id}/cancel")
    assert "Run anyway" in eve.get(f"/jobs/{job_id}").text
    assert "anyway" not in ada.get(f"/jobs/{job_id}").text
    refused = ada.post(f"/jobs/{job_id}/again", {"mode": "after-all"})
    assert refused.status_code == 409 and "no longer available" in refused.text


def test_the_list_says_what_was_wanted_where_it_is_no_summary(eve: Person) -> None:
    eve.paste("Minutes.", workflow="action_items")
    eve.paste("Minutes.")
    page = eve.get("/").text.partition('id="mine"')[2]
    assert page.count(">Action items</small>") == 1 and "Summary" not in page
