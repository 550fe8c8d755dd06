"""Deletion takes effect at once: of a document with all its jobs, or of an account, and of nothing else."""

from __future__ import annotations

import threading
import uuid

import pytest
from flask import Flask
from sqlalchemy import delete, func, select, text
from werkzeug.test import TestResponse

from tasks.database import Database
from tasks.ledger.errors import ClaimLost
from tasks.ledger.jobs import deletion, transitions
from tasks.ledger.models import Base, Document, Job
from tests.support import factories
from tests.web.conftest import Browser, Person, WebHarness, job_id_in, poll_address, rows
from webapp.auth import api_tokens, passwords
from webapp.models import Account

HX = {"HX-Request": "true"}
PASSWORD = "a harbour at night"
DELETED = "The document and its results have been deleted."


def left(database: Database) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    tables = Base.metadata.sorted_tables
    counted = {table.name: rows(database, select(func.count()).select_from(table))[0][0] for table in tables}
    return {name: count for name, count in counted.items() if count}


@pytest.fixture
def registered(app: Flask, database: Database) -> Person:
    """Return a user with a password, an API token and a document."""
    with database.transaction() as session:
        stored = passwords.hash_password(PASSWORD)
        account_id = factories.make_account(session, "eve@example.org", password_hash=stored)
        api_tokens.make_token(session, account_id, "nightly")
    person = Person(app, account_id)
    person.paste("A text.", idempotency_key="k")
    return person


def test_the_page_asks_before_anything_is_deleted(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.succeeded(title="Harbour <b>report</b>")
    assert f'href="/jobs/{job_id}/delete"' in ada.get(f"/jobs/{job_id}").text
    page = ada.get(f"/jobs/{job_id}/delete")
    assert page.status_code == 200
    assert "Harbour &lt;b&gt;report&lt;/b&gt;" in page.text and "1 job and 1 saved result" in page.text
    assert f'action="/jobs/{job_id}/delete"' in page.text and f'href="/jobs/{job_id}">Keep it' in page.text
    assert "billed" not in page.text
    assert len(rows(database, select(Job.id))) == 1


def test_the_page_counts_every_job_about_the_document(ada: Person, database: Database, bench: WebHarness) -> None:
    first = job_id_in(ada.paste("same", **{"summary-length": "short"}))
    job_id_in(ada.paste("same", **{"summary-length": "long"}))
    page = ada.get(f"/jobs/{first}/delete").text
    assert "2 jobs and no saved result" in page
    assert "billed" not in page
    bench.claim(first)
    assert "What is already at the AI service may still be billed." in ada.get(f"/jobs/{first}/delete").text


def test_a_deleted_document_is_gone_with_all_its_jobs(ada: Person, bench: WebHarness, database: Database) -> None:
    first = job_id_in(ada.paste("same", **{"summary-length": "short"}))
    second = job_id_in(ada.paste("same", **{"summary-length": "long"}))
    other = bench.succeeded("Kept.")
    answer = ada.post(f"/jobs/{first}/delete")
    assert (answer.status_code, answer.location) == (303, "/")
    home = ada.get("/").text
    assert DELETED in home and DELETED not in ada.get("/").text
    for path in (f"/jobs/{first}", f"/jobs/{second}", f"/jobs/{first}/delete", f"/jobs/{first}/original"):
        assert ada.get(path).status_code == 404
    assert ada.post(f"/jobs/{first}/delete").status_code == 404
    assert rows(database, select(Job.id)) == [(other,)] and len(rows(database, select(Document.id))) == 1


def test_a_page_that_polls_for_a_deleted_job_is_sent_away_and_stops(ada: Person, bench: WebHarness) -> None:
    job_id = bench.job()
    bench.claim(job_id)
    address = poll_address(ada.get(f"/jobs/{job_id}").text)
    ada.post(f"/jobs/{job_id}/delete")
    answer = ada.get(address, headers=HX)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (404, f"/jobs/{job_id}")
    gone = ada.get(f"/jobs/{job_id}")
    assert gone.status_code == 404 and "hx-get" not in gone.text


def test_somebody_elses_document_stays(ada: Person, bob: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.succeeded()
    before = left(database)
    for found in (job_id, uuid.uuid4(), "no-id"):
        for answer in (bob.get(f"/jobs/{found}/delete"), bob.post(f"/jobs/{found}/delete")):
            assert answer.status_code == 404
            assert answer.data == bob.get("/jobs/nothing").data
    assert left(database) == before


def test_without_the_owner_in_the_query_it_would_not_stay(
    bob: Person, bench: WebHarness, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the negative control: without the owner in the query, the test above would fail."""
    from tasks.ledger.reports import job_views

    real = deletion.delete_document

    def delete_anybodys(session, document_id, account_id):
        return real(session, document_id, bench.owner)

    monkeypatch.setattr(job_views, "job_of", lambda session, job_id, account_id: job_views.any_job(session, job_id))
    monkeypatch.setattr(deletion, "delete_document", delete_anybodys)
    assert bob.post(f"/jobs/{bench.succeeded()}/delete").status_code == 303
    assert not rows(database, select(Document.id))


def test_deleting_needs_the_proof_of_origin(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    assert ada.client.post(f"/jobs/{job_id}/delete").status_code == 400
    assert ada.client.post("/account/delete", data={"password": "x", "sure": "yes"}).status_code == 400
    assert len(rows(database, select(Job.id))) == 1


def test_deleting_by_program(app: Flask, ada: Person, bob: Person, bench: WebHarness, database: Database) -> None:
    with database.transaction() as session:
        mine, theirs = (api_tokens.make_token(session, who.id, "test") for who in (ada, bob))
    client = app.test_client(use_cookies=False)
    job_id = bench.succeeded()

    def delete(found: object, token: str):
        return client.delete(f"/api/v1/jobs/{found}", headers={"Authorization": f"Bearer {token}"})

    for found, token in ((job_id, theirs), (uuid.uuid4(), mine), ("no-id", mine)):
        answer = delete(found, token)
        assert (answer.status_code, answer.content_type) == (404, "application/problem+json")
    assert len(rows(database, select(Job.id))) == 1
    answer = delete(job_id, mine)
    assert (answer.status_code, answer.data) == (204, b"")
    assert delete(job_id, mine).status_code == 404
    assert not rows(database, select(Document.id))


LEFT_OF_ANOTHER = ("accounts", "sessions", "documents", "jobs", "accepted_jobs", "deliveries", "events")


def test_the_account_goes_with_everything_and_leaves_others_alone(
    registered: Person, bench: WebHarness, database: Database, app: Flask
) -> None:
    kept = bench.job()
    elsewhere = Person(app, registered.id)
    assert elsewhere.get("/").status_code == 200
    answer = registered.post("/account/delete", {"password": PASSWORD, "sure": "yes"})
    assert (answer.status_code, answer.location) == (303, "/login")
    assert "Your account and everything in it have been deleted." in registered.get("/login").text
    assert registered.get("/").status_code == elsewhere.get("/").status_code == 302
    assert left(database) == dict.fromkeys(LEFT_OF_ANOTHER, 1)
    assert rows(database, select(Job.id)) == [(kept,)]
    signed_in = Browser(app).post("/login", {"email": "eve@example.org", "password": PASSWORD})
    assert signed_in.status_code == 401


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"password": "a guess at night", "sure": "yes"}, 403, "Wrong password."),
        ({"password": "x" * 5000, "sure": "yes"}, 403, "Wrong password."),
        ({"sure": "yes"}, 403, "Wrong password."),
        ({"password": PASSWORD}, 422, "Tick the box to confirm."),
    ],
)
def test_the_account_stays_without_the_password_or_the_tick(
    registered: Person, database: Database, fields: dict[str, str], status: int, message: str
) -> None:
    before = left(database)
    answer = registered.post("/account/delete", fields)
    assert answer.status_code == status and message in answer.text and "Nothing was deleted." in answer.text
    assert PASSWORD not in answer.text
    assert left(database) == before and registered.get("/").status_code == 200


def test_all_of_the_account_is_deleted_or_nothing(
    app: Flask, registered: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.ledger.jobs import deletion

    real, before = deletion.delete_account_content, left(database)

    def break_after(session, account_id):
        real(session, account_id)
        raise RuntimeError

    monkeypatch.setattr(deletion, "delete_account_content", break_after)
    app.config["TESTING"] = False
    assert registered.post("/account/delete", {"password": PASSWORD, "sure": "yes"}).status_code == 500
    assert left(database) == before and registered.get("/").status_code == 200


def test_guessing_the_password_of_an_open_session_is_stopped(registered: Person, database: Database) -> None:
    for _ in range(10):
        assert registered.post("/account/delete", {"password": "guess", "sure": "yes"}).status_code == 403
    answer = registered.post("/account/delete", {"password": PASSWORD, "sure": "yes"})
    assert answer.status_code == 429 and 'href="/account"' in answer.text
    assert rows(database, select(Account.id))


def test_an_account_can_be_deleted_while_its_job_is_worked_on(
    registered: Person, bench: WebHarness, database: Database
) -> None:
    [(job_id,)] = rows(database, select(Job.id))
    claim = bench.claim(job_id)
    assert registered.post("/account/delete", {"password": PASSWORD, "sure": "yes"}).status_code == 303
    with pytest.raises(ClaimLost), database.transaction() as session:
        transitions.succeed(session, claim, text="Too late.", facts={})
    assert left(database) == {"accounts": 1, "sessions": 1}  # those of the owner of `bench`


def test_a_document_that_is_just_being_handed_in_goes_with_the_account(
    registered: Person, database: Database, account_id: uuid.UUID
) -> None:
    answers: list[TestResponse] = []

    def leave() -> None:
        answers.append(registered.post("/account/delete", {"password": PASSWORD, "sure": "yes"}))

    leaving = threading.Thread(target=leave)
    registered.token("/account")
    with database.transaction() as session:
        factories.submit(session, registered.id, b"A second text.")
        leaving.start()
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        factories.wait_until(lambda: rows(database, waiting)[0][0] == 1)
    leaving.join()
    assert [answer.status_code for answer in answers] == [303]
    assert left(database) == {"accounts": 1, "sessions": 1}  # those of another account


@pytest.mark.parametrize("what", ["page", "token", "program"])
def test_what_is_sent_while_the_account_is_deleted_is_answered_as_signed_out(
    app: Flask, registered: Person, database: Database, what: str
) -> None:
    answers: list[TestResponse] = []
    with database.transaction() as session:
        token = api_tokens.make_token(session, registered.id, "script")
    headers = {"Authorization": f"Bearer {token}"}

    def send() -> None:
        if what == "program":
            answers.append(app.test_client().post("/api/v1/jobs", json={"text": "late"}, headers=headers))
        elif what == "token":
            answers.append(registered.post("/account/tokens", {"name": "late"}))
        else:
            answers.append(registered.paste("late"))

    registered.token("/account")
    sending = threading.Thread(target=send)
    with database.transaction() as session:
        deletion.delete_account_content(session, registered.id)
        session.execute(delete(Account).where(Account.id == registered.id))
        sending.start()
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        factories.wait_until(lambda: rows(database, waiting)[0][0] == 1)
    sending.join()
    (answer,) = answers
    if what == "program":
        assert answer.status_code == 401 and answer.content_type == "application/problem+json"
    else:
        assert (answer.status_code, answer.location) == (302, "/login")
        assert registered.get("/").location == "/login"
    assert left(database) == {}
