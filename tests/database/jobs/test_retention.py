"""Tests of retention: content older than RETENTION_DAYS is deleted, records and all that is still needed stay."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import checkpoints, retention, transitions
from tasks.ledger.jobs import deletion as jobs_deletion
from tasks.ledger.jobs.accept import Intent, accept_job_for_document
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.models import Base, Job
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.maintenance.reconciler import Reconciler
from tasks.settings import Settings
from tests.support import factories

DAYS = 30
MARK = "Wintergreen"


def finished(session: Session, account_id: uuid.UUID, content: bytes = MARK.encode(), **intent: object) -> uuid.UUID:
    """Create a job whose document was read and that succeeded, and return its id."""
    job_id = factories.submit(session, account_id, content, **intent).job_id
    claim = factories.claim(session, job_id)
    facts = {"pages": 2, "words": 1}
    checkpoints.save(session, claim, "read", SavedStep(MARK, facts), next_step="summarise", done=0, total=1)
    transitions.succeed(session, claim, text=f"About {MARK}.", facts={"model": "m"})
    return job_id


def let_days_pass(session: Session, days: float, *jobs: uuid.UUID) -> None:
    """Move the times of these jobs into the past, as if the days had passed."""
    session.execute(
        text(
            "UPDATE jobs SET finished_at = finished_at - make_interval(secs => :s), "
            "created_at = created_at - make_interval(secs => :s) WHERE id = ANY(:ids)"
        ),
        {"s": days * 86_400, "ids": list(jobs)},
    )


def sweep(database: Database, settings: Settings, **changed: object) -> int:
    changed_settings = settings.model_copy(update=changed)
    return Reconciler(database.transaction, changed_settings, lambda: None).step()


def everything(session: Session) -> str:
    """Return all values of all rows as text."""
    return "".join(
        row
        for table in Base.metadata.sorted_tables
        for row in session.execute(text(f"SELECT to_jsonb(t)::text FROM {table.name} t")).scalars()
    )


def content_kept(session: Session, job_id: uuid.UUID) -> bool:
    job = job_views.any_job(session, job_id)
    assert job is not None
    return job.original_kept


def test_content_goes_after_its_time_and_the_record_stays(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        options = {"questions": [f"What is {MARK}?"]}
        old = finished(
            session, account_id, title=f"{MARK} title", options=options, idempotency_key="k", fresh_run_key="f"
        )
        young = finished(session, account_id, b"another")
        session.execute(text("UPDATE documents SET filename = NULL"))
        let_days_pass(session, DAYS + 1, old)
        let_days_pass(session, DAYS - 0.01, young)
        before = job_views.any_job(session, old)
    assert before is not None and before.state is State.SUCCEEDED
    assert sweep(database, settings) == 1
    with database.transaction() as session:
        job = job_views.any_job(session, old)
        kept = job_views.result_of(session, young, account_id)
        assert job is not None and kept is not None and content_kept(session, young)
        assert (job.state, job.days_kept, job.original_kept) == (State.SUCCEEDED, 31, False)
        assert job.revision == before.revision + 1
        assert job.title == retention.TITLE_OF_PASTED_TEXT
        assert job.read_facts == {"pages": 2, "words": 1}
        assert job_views.result_of(session, old, account_id) is None
        assert factories.count(session, "submissions") == 0
        assert [event.event for event in job_views.events_of(session, old)][-1] == "succeed"
        session.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": young})
        assert MARK not in everything(session)
        assert MARK.encode().hex() not in everything(session)
    assert sweep(database, settings) == 0


def test_control_without_the_sweep_all_of_it_is_still_there(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        old = finished(session, account_id, title=f"{MARK} title")
        let_days_pass(session, DAYS + 1, old)
    assert sweep(database, settings, retention_days=DAYS + 2) == 0
    with database.transaction() as session:
        content = everything(session)
        assert f"{MARK} title" in content and f"About {MARK}." in content and MARK.encode().hex() in content


@pytest.mark.parametrize("state", ["queued", "running", "retry_wait", "cancel_requested"])
def test_an_unfinished_jobs_input_stays_however_old_it_is(
    database: Database, settings: Settings, account_id: uuid.UUID, state: str
) -> None:
    with database.transaction() as session:
        old = finished(session, account_id)
        job = factories.submit(session, account_id, MARK.encode(), fresh_run_key="again", deadline_seconds=9e6).job_id
        if state != "queued":
            claim = factories.claim(session, job, lease_seconds=120)
        if state == "retry_wait":
            transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=9e5)
        if state == "cancel_requested":
            transitions.cancel(session, job, account_id)
        let_days_pass(session, DAYS + 1, old, job)
        assert factories.state_of(session, job) == state
    assert sweep(database, settings) == 1
    with database.transaction() as session:
        assert job_views.result_of(session, old, account_id) is None
        assert content_kept(session, job)
        assert not retention.delete_content(session, job, days=1)


def test_the_document_goes_with_the_last_job_about_it(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        first = finished(session, account_id)
        second = finished(session, account_id, fresh_run_key="again")
        let_days_pass(session, DAYS + 1, first)
    sweep(database, settings)
    with database.transaction() as session:
        assert content_kept(session, second) and job_views.result_of(session, second, account_id) is not None
        let_days_pass(session, DAYS + 1, second)
    sweep(database, settings)
    with database.transaction() as session:
        assert not content_kept(session, second)


def test_the_same_request_afterwards_is_one_new_job(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        old = finished(session, account_id, idempotency_key="k")
        assert factories.submit(session, account_id, MARK.encode()).job_id == old
        let_days_pass(session, DAYS + 1, old)
    sweep(database, settings)

    def hand_in() -> uuid.UUID:
        with database.transaction() as session:
            return factories.submit(session, account_id, MARK.encode(), idempotency_key="k").job_id

    found = factories.all_at_once([hand_in] * 6)
    assert len(set(found)) == 1 and found[0] != old, found
    with database.transaction() as session:
        assert content_kept(session, found[0])
        assert factories.count(session, "jobs") == 2
        job = found[0]
        transitions.succeed(session, factories.claim(session, job), text="Anew.", facts={})
        let_days_pass(session, DAYS + 1, job)
    sweep(database, settings)
    assert hand_in() not in (old, job)


def test_a_closed_job_is_not_put_back(database: Database, settings: Settings, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job = factories.submit(session, account_id).job_id
        transitions.fail(session, factories.claim(session, job), category=Category.QUOTA)
        let_days_pass(session, DAYS + 1, job)
    sweep(database, settings)
    with database.transaction() as session:
        assert transitions.replay(session, job, deadline_seconds=60, more_attempts=3, cause="why not") is None
        assert factories.submit(session, account_id).job_id != job


def test_what_the_provider_kept_of_it_is_to_be_deleted_there(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        old = finished(session, account_id)
        row = (
            "INSERT INTO provider_calls (id, job_id, generation, step, lane, provider, model, started_at, ended_at, "
            "outcome, background, response_id, response_deleted_at) VALUES (gen_random_uuid(), :job, 1, 's', 'l', 'p', "
            "'m', now(), now(), 'succeeded', true, :name, :gone)"
        )
        session.execute(text(row), {"job": old, "name": "resp_kept", "gone": None})
        session.execute(text(row), {"job": old, "name": "resp_gone", "gone": "2026-01-01"})
        let_days_pass(session, DAYS + 1, old)
    sweep(database, settings)
    with database.transaction() as session:
        assert session.execute(text("SELECT response_id FROM left_responses")).scalars().all() == ["resp_kept"]
        assert len(job_views.calls_of(session, old)) == 2


@pytest.mark.race
def test_two_reconcilers_delete_each_once(database: Database, settings: Settings, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        jobs = [finished(session, account_id, f"text {n}".encode()) for n in range(8)]
        jobs += [finished(session, account_id, b"text 0", fresh_run_key=str(n)) for n in range(4)]
        let_days_pass(session, DAYS + 1, *jobs)
    closed = factories.all_at_once([lambda: sweep(database, settings)] * 4)
    assert sum(one for one in closed if isinstance(one, int)) == 12, closed
    with database.transaction() as session:
        assert factories.count(session, "results") == 0
        assert session.execute(text("SELECT count(content) FROM documents")).scalar_one() == 0
        assert session.execute(text("SELECT max(revision) - min(revision) FROM jobs")).scalar_one() == 0


@pytest.mark.race
def test_owners_who_delete_meet_the_sweep(database: Database, settings: Settings, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        jobs = [finished(session, account_id, f"text {n}".encode()) for n in range(6)]
        jobs += [finished(session, account_id, f"text {n}".encode(), fresh_run_key="f") for n in range(6)]
        let_days_pass(session, DAYS + 1, *jobs)
        documents = session.execute(text("SELECT id FROM documents")).scalars().all()

    def forget(document: uuid.UUID) -> Callable[[], int | None]:
        def once() -> int | None:
            with database.transaction() as session:
                return jobs_deletion.delete_document(session, document, account_id)

        return once

    def forget_all() -> int:
        with database.transaction() as session:
            return jobs_deletion.delete_account_content(session, account_id)

    works: list[Callable[[], object]] = [forget(document) for document in documents[:4]]
    ended = factories.all_at_once([*works, forget_all, *[lambda: sweep(database, settings)] * 3])
    assert not [one for one in ended if isinstance(one, Exception)], ended
    with database.transaction() as session:
        assert [factories.count(session, table) for table in ("jobs", "documents", "results", "events")] == [0, 0, 0, 0]


def again(session: Session, account_id: uuid.UUID, document_id: uuid.UUID) -> None:
    intent = Intent(account_id, "t", "summary", 1, {}, fresh_run_key="again")
    accept_job_for_document(
        session, intent, document_id, factories.settings({"DATABASE_URL": "x", "REDIS_URL": "x"}).terms
    )


@pytest.mark.race
@pytest.mark.parametrize("guarded", [True, False])
def test_a_fresh_run_that_meets_the_deletion_keeps_its_input_or_is_refused(
    database: Database, account_id: uuid.UUID, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accept a new run, not committed yet, while retention deletes. The control does not lock the document."""
    if not guarded:
        real = retention.select
        monkeypatch.setattr(retention, "select", lambda *columns: _without_lock(real(*columns)))
    with database.transaction() as session:
        old = finished(session, account_id)
        let_days_pass(session, DAYS + 1, old)
        document = session.get_one(Job, old).document_id
    blocked = threading.Event()

    def delete() -> bool:
        with database.transaction() as session:
            blocked.set()
            return retention.delete_content(session, old, days=DAYS)

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as session:
            again(session, account_id, document)
            deletion = threads.submit(delete)
            blocked.wait(10)
            if guarded:
                factories.wait_until(lambda: waiting(database))
            else:
                # The deletion may only wait in its last statement, which then has read the old state.
                factories.wait_until(lambda: deletion.done() or waiting(database))
        assert deletion.result(10)
    with database.transaction() as session:
        (fresh,) = session.execute(text("SELECT id FROM jobs WHERE state = 'queued'")).scalars()
        assert content_kept(session, fresh) is guarded


def _without_lock(statement):
    statement.with_for_update = lambda: statement
    return statement


def waiting(database: Database) -> bool:
    """Return True if a transaction waits for a lock."""
    with database.transaction() as session:
        return (
            factories.count(session, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
            > 0
        )


def test_a_fresh_run_after_the_deletion_is_refused(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        old = finished(session, account_id)
        let_days_pass(session, DAYS + 1, old)
        assert retention.delete_content(session, old, days=DAYS)
    with database.transaction() as session, pytest.raises(NoResultFound):
        again(session, account_id, session.get_one(Job, old).document_id)
