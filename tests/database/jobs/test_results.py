"""Tests of results. I2: at most one result, saved in the same transaction as the state `succeeded`."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.ledger.states import State
from tests.support import factories

DISAGREE = text("""
    SELECT count(*) FROM jobs LEFT JOIN results ON results.job_id = jobs.id
    WHERE (jobs.state = 'succeeded') <> (results.job_id IS NOT NULL)""")


class PowerCut(Exception):
    """Raised in place of a crash of the process."""


def test_a_crash_before_the_commit_leaves_neither_result_nor_state(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
    with pytest.raises(PowerCut), database.transaction() as session:
        transitions.succeed(session, claim, text="a summary", facts={})
        raise PowerCut
    with database.transaction() as session:
        assert session.execute(DISAGREE).scalar_one() == 0
        assert factories.state_of(session, job_id) is State.RUNNING
        assert transitions.succeed(session, claim, text="a summary", facts={}) is State.SUCCEEDED
    with database.transaction() as session:
        assert session.execute(DISAGREE).scalar_one() == 0
        assert factories.count(session, "results") == 1


def test_control_in_two_transactions_a_crash_between_them_leaves_half(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        factories.claim(session, job_id)
    with database.transaction() as session:
        session.execute(
            text("INSERT INTO results (job_id, generation, text, facts) VALUES (:id, 1, 'a summary', '{}')"),
            {"id": job_id},
        )
    # The process is killed here, before its second transaction.
    with database.transaction() as session:
        assert session.execute(DISAGREE).scalar_one() == 1


def test_a_second_result_is_refused_by_the_database(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        transitions.succeed(session, factories.claim(session, job_id), text="a summary", facts={})
    with pytest.raises(IntegrityError, match="pk_results"), database.transaction() as session:
        session.execute(
            text("INSERT INTO results (job_id, generation, text, facts) VALUES (:id, 2, 'another', '{}')"),
            {"id": job_id},
        )
