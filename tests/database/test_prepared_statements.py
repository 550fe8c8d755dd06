"""Prepared statements: only where a connection is a session, and one that is lost costs one try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tasks import database as database_module
from tasks.database import PREPARED_AFTER, Database, is_out_of_reach
from tasks.ledger.models import Job
from tasks.settings import Settings


def prepared(session: Session) -> int:
    return session.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()


def count_jobs(session: Session) -> int:
    return session.execute(select(func.count()).select_from(Job)).scalar_one()


def lose_what_was_prepared(database: Database) -> None:
    """Do what a pooler does that gives the next transaction another connection to the server."""
    for _ in range(PREPARED_AFTER + 2):
        with database.transaction() as session:
            count_jobs(session)
    with database.transaction() as session:
        assert prepared(session) > 0
        session.execute(text("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"))  # hidden from the driver


@pytest.fixture
def one_connection(settings: Settings) -> Iterator[Database]:
    with Database(settings, "waybill-prepares", pool_size=1) as database:
        yield database


def test_a_statement_that_the_server_has_lost_is_sent_again(one_connection: Database) -> None:
    lose_what_was_prepared(one_connection)
    assert one_connection.persist(count_jobs, for_seconds=10) >= 0


def test_control_without_the_rule_the_error_stays(one_connection: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "PREPARED_IS_GONE", ())
    lose_what_was_prepared(one_connection)
    with pytest.raises(DBAPIError) as error, one_connection.transaction() as session:
        count_jobs(session)
    assert not is_out_of_reach(error.value)


def test_behind_a_declared_pooler_nothing_is_prepared(settings: Settings) -> None:
    declared = settings.model_copy(update={"database_pooler": "transaction"})
    with Database(declared, "waybill-behind-a-pooler", pool_size=1) as database:
        for _ in range(PREPARED_AFTER + 2):
            with database.transaction() as session:
                count_jobs(session)
        with database.transaction() as session:
            assert prepared(session) == 0
