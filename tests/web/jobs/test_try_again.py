"""Cancelling a job, trying it again, and running it again on purpose."""

from __future__ import annotations

import threading
import uuid

import pytest
from flask import Flask
from sqlalchemy import func, select

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import deletion, transitions
from tasks.ledger.models import Delivery, Document, Job, JobEvent
from tasks.ledger.states import Event, State
from tests.web.conftest import Person, WebHarness, job_id_in, rows
from webapp.jobs import submission

HX = {"HX-Request": "true"}


def state_of(database: Database, job_id: uuid.UUID) -> str:
    return rows(database, select(Job.state).where(Job.id == job_id))[0][0]


def jobs(database: Database) -> int:
    return rows(database, select(func.count()).select_from(Job))[0][0]


def test_cancelling_a_waiting_job_ends_it_at_once(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    answer = ada.post(f"/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.location) == (303, f"/jobs/{job_id}")
    assert state_of(database, job_id) == State.CANCELLED
    assert not rows(database, select(Delivery.job_id))


def test_cancelling_a_running_job_asks_its_worker_and_answers_with_the_fragment(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.job()
    bench.claim(job_id)
    answer = ada.post(f"/jobs/{job_id}/cancel", headers=HX)
    assert answer.status_code == 200 and "<html" not in answer.text
    assert 'data-state="cancel_requested"' in answer.text and "may still be billed" in answer.text
    assert 'id="cancel"' not in answer.text
    assert '<div id="live" hx-swap-oob="innerHTML">Cancelling</div>' in answer.text
    again = ada.post(f"/jobs/{job_id}/cancel", headers=HX)
    assert again.status_code == 200 and "already finished" not in again.text


def test_cancelling_stops_a_retry(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.waiting(Category.OVERLOADED)
    ada.post(f"/jobs/{job_id}/cancel")
    assert state_of(database, job_id) == State.CANCELLED


@pytest.mark.parametrize("htmx", [True, False])
def test_cancelling_too_late_says_so_and_changes_nothing(
    ada: Person, bench: WebHarness, database: Database, htmx: bool
) -> None:
    job_id = bench.succeeded("The pier is closed.")
    answer = ada.post(f"/jobs/{job_id}/cancel", headers=HX if htmx else {})
    assert answer.status_code == (200 if htmx else 409)
    assert "already finished" in answer.text and "The pier is closed." in answer.text
    assert state_of(database, job_id) == State.SUCCEEDED


def test_a_failed_job_of_a_passing_cause_is_the_same_job_again(
    ada: Person, bench: WebHarness, database: Database, queue
) -> None:
    job_id = bench.failed(Category.OVERLOADED)
    answer = ada.post(f"/jobs/{job_id}/again")
    assert (answer.status_code, answer.location) == (303, f"/jobs/{job_id}")
    assert state_of(database, job_id) == State.QUEUED and jobs(database) == 1
    [(facts,)] = rows(database, select(JobEvent.facts).where(JobEvent.event == Event.REPLAY))
    assert facts == {"cause": "owner: try again"}
    assert len(queue.rq.get_job_ids()) == 1
    assert "You asked to try again." in ada.get(f"/jobs/{job_id}").text
    twice = ada.post(f"/jobs/{job_id}/again")
    assert twice.status_code == 303
    assert len(rows(database, select(JobEvent.id).where(JobEvent.event == Event.REPLAY))) == 1


@pytest.mark.parametrize("category", [Category.INVALID_DOCUMENT, Category.QUOTA, Category.CONTENT_POLICY])
def test_a_cause_that_stays_is_not_tried_again(
    ada: Person, bench: WebHarness, database: Database, category: Category
) -> None:
    job_id = bench.failed(category)
    assert 'value="again"' not in ada.get(f"/jobs/{job_id}").text
    answer = ada.post(f"/jobs/{job_id}/again")
    assert answer.status_code == 409 and "can’t be tried again" in answer.text
    assert state_of(database, job_id) == State.FAILED


def test_the_same_document_again_leads_to_the_failed_job_and_its_offer(
    ada: Person, database: Database, bench: WebHarness
) -> None:
    job_id = job_id_in(ada.paste("same"))
    claim = bench.claim(job_id)
    with database.transaction() as session:
        transitions.fail(session, claim, category=Category.OVERLOADED)
    assert job_id_in(ada.paste("same")) == job_id
    assert 'value="again"' in ada.get(f"/jobs/{job_id}").text


def test_a_cancelled_job_can_be_run_after_all(ada: Person, database: Database) -> None:
    cancelled = job_id_in(ada.paste("same"))
    ada.post(f"/jobs/{cancelled}/cancel")
    assert "Summarize anyway" in ada.get(f"/jobs/{cancelled}").text
    first = job_id_in(ada.post(f"/jobs/{cancelled}/again", {"mode": "after-all"}))
    second = job_id_in(ada.post(f"/jobs/{cancelled}/again", {"mode": "after-all"}))
    assert first == second != cancelled
    assert state_of(database, cancelled) == State.CANCELLED and jobs(database) == 2


def test_a_fresh_summary_is_a_new_job_and_a_double_click_makes_one(
    app: Flask, ada: Person, bench: WebHarness, database
) -> None:
    job_id = bench.succeeded()
    page = ada.get(f"/jobs/{job_id}").text
    key = page.partition('name="fresh_run_key" value="')[2].partition('"')[0]
    people = [Person(app, ada.id) for _ in range(4)]
    for person in people:
        person.token("/account")
    barrier, answers = threading.Barrier(4), []

    def click(person: Person) -> None:
        barrier.wait()
        answers.append(person.post(f"/jobs/{job_id}/again", {"mode": "fresh", "fresh_run_key": key}))

    threads = [threading.Thread(target=click, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [fresh] = {job_id_in(answer) for answer in answers}
    assert fresh != job_id and jobs(database) == 2
    assert "new run." in ada.get(f"/jobs/{fresh}").text
    assert len(rows(database, select(Document.id))) == 1


@pytest.mark.parametrize("fields", [{"mode": "fresh"}, {"mode": "fresh", "fresh_run_key": ""}, {"mode": "what"}])
def test_a_fresh_summary_without_its_key_is_refused(
    ada: Person, bench: WebHarness, database: Database, fields: dict[str, str]
) -> None:
    assert ada.post(f"/jobs/{bench.succeeded()}/again", fields).status_code == 409
    assert jobs(database) == 1


def test_a_fresh_summary_of_an_unfinished_job_is_refused(ada: Person, bench: WebHarness, database: Database) -> None:
    answer = ada.post(f"/jobs/{bench.job()}/again", {"mode": "fresh", "fresh_run_key": "k"})
    assert answer.status_code == 409 and jobs(database) == 1


@pytest.mark.parametrize(
    "gone", [{"workflow": "translation"}, {"options": {"length": "epic"}}, {"options": {"tone": "merry"}}]
)
def test_what_is_not_made_any_more_is_said_and_not_offered(
    ada: Person, bench: WebHarness, database: Database, gone: dict[str, object]
) -> None:
    saved, failed, cancelled = bench.succeeded(**gone), bench.failed(Category.OVERLOADED, **gone), bench.job(**gone)
    ada.post(f"/jobs/{cancelled}/cancel")
    requests = {
        saved: {"mode": "fresh", "fresh_run_key": "k"},
        failed: {"mode": "again"},
        cancelled: {"mode": "after-all"},
    }
    for job_id, fields in requests.items():
        assert 'name="mode"' not in ada.get(f"/jobs/{job_id}").text
        answer = ada.post(f"/jobs/{job_id}/again", fields)
        assert answer.status_code == 409 and "is no longer available" in answer.text
    assert "is no longer available" not in ada.get("/").text and jobs(database) == 3


def test_a_document_that_is_deleted_while_it_is_submitted_again_is_simply_gone(
    ada: Person, bench: WebHarness, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = bench.succeeded()
    real = submission.accept_job_for_document

    def too_late(session, intent, document_id, terms):
        with database.transaction() as other:
            deletion.delete_document(other, document_id, ada.id)
        return real(session, intent, document_id, terms)

    monkeypatch.setattr(submission, "accept_job_for_document", too_late)
    answer = ada.post(f"/jobs/{job_id}/again", {"mode": "fresh", "fresh_run_key": "k"})
    assert answer.status_code == 404 and jobs(database) == 0


def test_a_deleted_document_cannot_be_summarised_again(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.succeeded()
    with database.transaction() as session:
        session.execute(Document.__table__.update().values(content=None))
    page = ada.get(f"/jobs/{job_id}").text
    assert "The document has been deleted" in page and "Summarize again" not in page
    answer = ada.post(f"/jobs/{job_id}/again", {"mode": "fresh", "fresh_run_key": "k"})
    assert answer.status_code == 409 and "has been deleted" in answer.text
