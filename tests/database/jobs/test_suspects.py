"""Tests that a document that kills its worker is found, and that its neighbours are not blamed for it."""

from __future__ import annotations

import uuid

from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.reports import job_views
from tasks.ledger.states import READ_STEP, State
from tests.support import factories


def claim(database: Database, job_id: uuid.UUID, *, alone: bool = False, worker: str = "w") -> Claim | Refused:
    with database.transaction() as session:
        factories.let_the_wait_be_over(session, job_id)
        return transitions.claim(
            session, job_id, worker=worker, lane="local", lease_seconds=15, reservation_seconds=120, alone=alone
        )


def read(database: Database, held: Claim) -> None:
    with database.transaction() as session:
        checkpoints.save(session, held, READ_STEP, SavedStep("text", {}), next_step="x", done=0, total=1)


def die(database: Database, job_id: uuid.UUID, *, max_interruptions: int = 9) -> State | None:
    with database.transaction() as session:
        factories.let_the_lease_run_out(session, job_id)
        return transitions.expire(session, job_id, max_interruptions=max_interruptions)


def wait_seconds(database: Database, job_id: uuid.UUID) -> float:
    with database.transaction() as session:
        statement = text("SELECT extract(epoch FROM next_attempt_at - now()) FROM jobs WHERE id = :id")
        return float(session.execute(statement, {"id": job_id}).scalar_one())


def held(claimed: Claim | Refused) -> Claim:
    assert isinstance(claimed, Claim), claimed
    return claimed


def test_what_was_being_read_is_a_suspect_and_what_had_been_read_is_not(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        poison, neighbour = (factories.submit(session, account_id, data).job_id for data in (b"poison", b"good"))
    held(claim(database, poison))
    read(database, held(claim(database, neighbour)))
    assert die(database, poison) is die(database, neighbour) is State.RETRY_WAIT
    assert claim(database, neighbour, worker="another") != Refused("suspect")
    assert claim(database, poison, worker="another") == Refused("suspect")
    assert isinstance(claim(database, poison, alone=True, worker="another"), Claim)


def test_a_suspect_that_has_been_read_is_none_any_more(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    held(claim(database, job_id))
    die(database, job_id)
    read(database, held(claim(database, job_id, alone=True)))
    die(database, job_id)
    assert isinstance(claim(database, job_id), Claim)


def test_a_document_that_kills_its_worker_alone_is_condemned(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    ends = []
    for _ in range(3):
        held(claim(database, job_id, alone=True))
        ends.append(die(database, job_id))
    assert ends == [State.RETRY_WAIT, State.RETRY_WAIT, State.FAILED]
    with database.transaction() as session:
        job = job_views.any_job(session, job_id)
        assert job is not None and (job.error_category, job.error_code) == ("crashed", "interrupted_too_often")
        assert transitions.replay(session, job_id, deadline_seconds=60, more_attempts=3, cause="test") is State.QUEUED
    assert isinstance(claim(database, job_id), Claim), "put back by a person, it begins again"


def test_interruptions_wait_longer_each_time(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    read(database, held(claim(database, job_id)))
    waits = []
    for _ in range(8):
        die(database, job_id, max_interruptions=20)
        waits.append(round(wait_seconds(database, job_id)))
        held(claim(database, job_id))
    assert waits == [0, 2, 4, 8, 16, 32, 60, 60]


def test_a_cancelled_job_has_no_crash_as_its_cause(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    held(claim(database, job_id))
    with database.transaction() as session:
        transitions.cancel(session, job_id, account_id)
    assert die(database, job_id) is State.CANCELLED
    with database.transaction() as session:
        job = job_views.any_job(session, job_id)
        assert job is not None and (job.error_category, job.error_code) == (None, None)
