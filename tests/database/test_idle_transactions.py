"""Tests of idle transactions: a process that freezes in a transaction loses its locks, for which others would wait."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from tasks import database as database_module
from tasks.database import Database, is_out_of_reach, let_it_idle
from tasks.settings import Settings
from tests.support import factories
from webapp import create_app
from webapp.database import transaction
from webapp.extensions import db

PATIENCE_SECONDS = 0.4
LOCK = text("SELECT 1 FROM jobs WHERE id = :id FOR UPDATE")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def another(settings: Settings) -> Iterator[Database]:
    """Yield the database of another process, which takes a lock and then sends no further statement."""
    with Database(settings, "waybill-frozen") as database:
        yield database


def gets_it(database: Database, job: uuid.UUID, *, within_seconds: float) -> bool:
    try:
        with database.transaction() as session:
            session.execute(text(f"SET LOCAL lock_timeout = '{within_seconds}s'"))
            session.execute(LOCK, {"id": job})
    except OperationalError:
        return False
    return True


def test_its_locks_are_released_and_its_next_statement_fails_with_an_error_that_is_retried(
    impatient: None, database: Database, another: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job = factories.submit(session, account_id).job_id
    with pytest.raises(DBAPIError) as late, another.transaction() as frozen:
        frozen.execute(LOCK, {"id": job})
        assert gets_it(database, job, within_seconds=30)
        frozen.execute(LOCK, {"id": job})
    assert is_out_of_reach(late.value)
    assert another.persist(lambda session: session.execute(LOCK, {"id": job}).scalar_one(), for_seconds=5) == 1


def test_control_without_the_limit_it_keeps_its_locks(
    monkeypatch: pytest.MonkeyPatch, database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job = factories.submit(session, account_id).job_id
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0)
    with Database(settings, "waybill-frozen") as unguarded, unguarded.transaction() as frozen:
        frozen.execute(LOCK, {"id": job})
        assert not gets_it(database, job, within_seconds=3 * PATIENCE_SECONDS)


def test_a_process_that_reads_from_a_pipe_may_idle(impatient: None, database: Database) -> None:
    with database.engine.begin() as connection:
        let_it_idle(connection)
        assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "0"


@pytest.mark.parametrize(("pooler", "between"), [("none", "10s"), ("transaction", "0")])
def test_the_web_part_sets_the_limit_once_and_behind_a_pooler_in_each_transaction(
    settings: Settings, pooler: str, between: str
) -> None:
    shown: Any = text("SHOW idle_in_transaction_session_timeout")
    with create_app(settings.model_copy(update={"database_pooler": pooler})).app_context():
        for _ in range(2):
            with transaction() as session:
                assert session.execute(shown).scalar_one() == "10s"
                connection = session.connection().connection.driver_connection
        assert connection is not None
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == (between,)
        db.engine.dispose()
