"""Tests of accepting jobs. I1: one operation is one job. I4: a job is accepted and owed in one transaction."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import AcceptedJob, IdempotencyKeyReused
from tasks.ledger.reports import job_views
from tests.support import factories


class PowerCut(Exception):
    """Raised in place of a crash of the process."""


def test_the_same_intent_is_the_same_job_while_it_waits_and_after_it_ended(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        first = factories.submit(session, account_id)
        assert first.created
        assert factories.submit(session, account_id) == AcceptedJob(first.job_id, created=False)
        transitions.succeed(session, factories.claim(session, first.job_id), text="a summary", facts={})
        assert factories.submit(session, account_id) == AcceptedJob(first.job_id, created=False)


def test_a_failed_job_is_found_again_and_a_cancelled_one_may_be_created_again(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        failed = factories.submit(session, account_id, b"one text").job_id
        transitions.fail(session, factories.claim(session, failed), category=Category.QUOTA)
        assert factories.submit(session, account_id, b"one text") == AcceptedJob(failed, created=False)
        cancelled = factories.submit(session, account_id, b"another text").job_id
        transitions.cancel(session, cancelled, account_id)
        anew = factories.submit(session, account_id, b"another text")
        assert anew.created
        assert anew.job_id != cancelled


def test_another_person_length_or_fresh_run_is_another_job(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        stranger = factories.make_account(session)
        jobs = {
            factories.submit(session, account_id).job_id,
            factories.submit(session, stranger).job_id,
            factories.submit(session, account_id, options={"length": "short", "form": "prose"}).job_id,
            factories.submit(session, account_id, fresh_run_key="again").job_id,
            factories.submit(session, account_id, workflow_version=2).job_id,
        }
        assert len(jobs) == 5
        assert factories.count(session, "documents") == 2  # the document is stored once per account


def test_a_resent_request_finds_its_first_answer_and_another_one_under_its_key_is_refused(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        first = factories.submit(session, account_id, idempotency_key="k1")
        transitions.cancel(session, first.job_id, account_id)
        assert factories.submit(session, account_id, idempotency_key="k1") == AcceptedJob(first.job_id, created=False)
    with pytest.raises(IdempotencyKeyReused), database.transaction() as session:
        factories.submit(session, account_id, b"other content", idempotency_key="k1")
    with database.transaction() as session:
        stranger = factories.make_account(session)
        assert factories.submit(session, stranger, b"other content", idempotency_key="k1").created


def test_a_rolled_back_submit_leaves_neither_job_nor_delivery(database: Database, account_id: uuid.UUID) -> None:
    with pytest.raises(PowerCut), database.transaction() as session:
        factories.submit(session, account_id)
        raise PowerCut
    with database.transaction() as session:
        assert [factories.count(session, table) for table in ("jobs", "deliveries", "documents", "events")] == [0] * 4
        factories.submit(session, account_id)
        assert [factories.count(session, table) for table in ("jobs", "deliveries", "documents", "events")] == [1] * 4


def test_control_job_and_delivery_in_two_transactions_leave_an_orphan(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        factories.submit(session, account_id)
        session.execute(text("DELETE FROM deliveries"))  # a crash between the two transactions would not write it
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=0) == 1


@pytest.mark.race
@pytest.mark.parametrize("key", [None, "one form"])
def test_eight_submits_at_once_are_one_job(database: Database, account_id: uuid.UUID, key: str | None) -> None:
    def submit() -> AcceptedJob:
        with database.transaction() as session:
            return factories.submit(session, account_id, idempotency_key=key)

    answers = factories.all_at_once([submit] * 8)
    assert all(isinstance(answer, AcceptedJob) for answer in answers), answers
    assert len({answer.job_id for answer in answers if isinstance(answer, AcceptedJob)}) == 1
    assert sum(answer.created for answer in answers if isinstance(answer, AcceptedJob)) == 1
    with database.transaction() as session:
        assert factories.count(session, "jobs") == factories.count(session, "deliveries") == 1


@pytest.mark.race
def test_control_without_the_constraint_submits_at_once_are_several_jobs(spare_database: Database) -> None:
    with spare_database.transaction() as session:
        account_id = factories.make_account(session)
        factories.submit(session, account_id)  # so that the document exists and no submit waits for its row
        session.execute(text("DELETE FROM jobs"))
        session.execute(text("DROP INDEX one_job_per_operation"))
        session.execute(text("CREATE INDEX looks_like_it ON jobs (operation_key)"))

    insert = text("""
        INSERT INTO jobs (id, account_id, document_id, queue, workflow, workflow_version, options, title,
                          operation_key, state, revision, generation, attempts, max_attempts, interruptions,
                          deliveries, deadline_at, progress_done, progress_total)
        SELECT gen_random_uuid(), account_id, id, 'q', 'summary', 1, '{}', 't',
               'the same', 'queued', 1, 0, 0, 3, 0, 0, now(), 0, 0 FROM documents
        WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE operation_key = 'the same')""")

    import threading

    everybody_looked = threading.Barrier(4)

    def check_then_insert() -> None:
        with spare_database.transaction() as session:
            session.execute(insert)
            everybody_looked.wait(10)

    factories.all_at_once([check_then_insert] * 4)
    with spare_database.transaction() as session:
        assert factories.count(session, "jobs") == 4
