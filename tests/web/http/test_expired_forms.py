"""Tests forms that are sent after their CSRF token or session has expired, which used to be a blank 400.

The form comes back with the submitted text and says what to press; files must be chosen again, and it says so.
"""

from __future__ import annotations

import io
import time
import uuid
from typing import Any

import pytest
from flask import Flask
from itsdangerous import TimestampSigner
from sqlalchemy import select
from werkzeug.datastructures import FileStorage

from tasks.database import Database
from tasks.ledger.models import Document, Job
from tests.web.conftest import Browser, Person, Program, job_id_in, proof_in, rows
from tests.web.upload_links.test_public import Sender
from webapp.auth import passwords
from webapp.models import Account

LONG = "A sentence with <b> & 港 in it. " * 160
PASSWORD = "a harbour at night"
DAY = 24 * 3600


def as_of(monkeypatch: pytest.MonkeyPatch, days_ago: float) -> None:
    """Backdate everything that is signed from now on."""
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: int(time.time() - days_ago * DAY))


def kept(page: str) -> str:
    """Return the text in the form, as a browser would send it again."""
    from html import unescape

    return unescape(page.partition('<textarea id="text"')[2].partition(">\n")[2].partition("</textarea>")[0])


def send(person: Browser, token: str, **fields: Any) -> Any:
    boundary_and_body = {"data": {"csrf_token": token, **fields}, "content_type": "multipart/form-data"}
    return person.client.post("/jobs", **boundary_and_body)


@pytest.mark.parametrize("days", [1 / 12, 3, 13])
def test_a_form_may_stay_open_for_as_long_as_the_session(
    app: Flask, account_id: uuid.UUID, database: Database, monkeypatch: pytest.MonkeyPatch, days: float
) -> None:
    as_of(monkeypatch, days)
    person = Person(app, account_id)
    token = person.token("/")
    monkeypatch.undo()
    job_id_in(send(person, token, text=LONG))
    assert len(rows(database, select(Job.id))) == 1


def test_after_the_session_the_text_is_still_there_and_one_job_is_made_in_the_end(
    app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.transaction() as session:
        session.add(Account(email="ada@example.org", password_hash=passwords.hash_password(PASSWORD)))
    browser = Browser(app)
    credentials = {"email": "ada@example.org", "password": PASSWORD}
    as_of(monkeypatch, 15)
    assert browser.post("/login", credentials).status_code == 303
    monkeypatch.undo()
    late = send(browser, "of the page that was open", text=LONG, title="Mine", **{"summary-form": "bullets"})
    assert late.status_code == 400 and "You are signed out" in late.text
    assert 'href="/login" target="_blank"' in late.text, "signing in must not cost the text either"
    assert kept(late.text) == LONG and 'value="Mine"' in late.text and 'value="bullets" checked' in late.text
    browser.forget_token()
    assert browser.post("/login", credentials).status_code == 303  # in the new tab
    again = send(browser, proof_in(late.text), text=kept(late.text))
    assert again.status_code == 400 and "Press Summarize again" in again.text and kept(again.text) == LONG
    assert not rows(database, select(Job.id))
    job_id_in(send(browser, proof_in(again.text), text=kept(again.text)))
    assert [content.decode() for (content,) in rows(database, select(Document.content))] == [LONG]


@pytest.mark.parametrize("names", [["one.txt"], ["one.txt", "two.txt", "three.txt"]], ids=len)
@pytest.mark.parametrize("signed_in", [True, False])
def test_files_must_be_chosen_again_and_the_page_says_so(
    ada: Person, browser: Browser, database: Database, names: list[str], signed_in: bool
) -> None:
    person = ada if signed_in else browser
    files = [FileStorage(io.BytesIO(b"words"), name) for name in names]
    answer = send(person, "old", file=files, title="Mine")
    assert answer.status_code == 400
    assert "Your browser does not keep files: choose yours again." in answer.text and 'value="Mine"' in answer.text
    assert ("Press Summarize again" if signed_in else "You are signed out") in answer.text
    assert not rows(database, select(Job.id))


def test_the_form_of_an_upload_link_keeps_its_text(app: Flask, program: Program, database: Database) -> None:
    answer = Sender(app, program).send(LONG, proof="of last week")
    assert answer.status_code == 400 and kept(answer.text) == LONG
    assert not rows(database, select(Job.id))


@pytest.mark.parametrize("path", ["/account/tokens", "/account/notices/webhook", "/account/password", "/logout"])
def test_no_other_form_answers_with_a_bare_400(ada: Person, path: str) -> None:
    answer = ada.client.post(path, data={"csrf_token": "old", "name": "typed"})
    assert answer.status_code == 400
    assert "too old" in answer.text and "press the button again" in answer.text
