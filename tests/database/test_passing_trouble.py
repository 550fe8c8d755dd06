"""Tests that trouble of the server that passes is known as such, and nothing else is."""

from __future__ import annotations

import threading
import uuid

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from tasks import database as database_module
from tasks.database import Database, error_name, is_out_of_reach, takes_writes
from tasks.ledger.models import Job
from tests.support import factories


def test_a_database_that_only_reads_is_passing_trouble(database: Database, account_id: uuid.UUID) -> None:
    with pytest.raises(DBAPIError) as refused, database.transaction() as session:
        session.execute(text("SET TRANSACTION READ ONLY"))
        assert not takes_writes(session)
        factories.submit(session, account_id)
    assert is_out_of_reach(refused.value) and error_name(refused.value) == "ReadOnlySqlTransaction"
    with database.transaction() as session:
        assert takes_writes(session)


@pytest.mark.parametrize(
    ("sqlstate", "name"),
    [
        ("53100", "DiskFull"),
        ("53300", "TooManyConnections"),
        ("57P01", "AdminShutdown"),
        ("57P02", "CrashShutdown"),
        ("57P03", "CannotConnectNow"),
        ("40001", "SerializationFailure"),
        ("08006", "ConnectionFailure"),
    ],
)
def test_so_is_whatever_the_server_says_of_itself(database: Database, sqlstate: str, name: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END $$"
    with pytest.raises(DBAPIError) as error, database.transaction() as session:
        session.execute(text(raising))
    assert is_out_of_reach(error.value) and error_name(error.value) == name


@pytest.mark.parametrize("statement", ["SELECT 1 / 0", "SELECT nothing", "DO $$ BEGIN RAISE EXCEPTION 'ours'; END $$"])
def test_a_bug_is_no_passing_trouble(database: Database, statement: str) -> None:
    with pytest.raises(DBAPIError) as error, database.transaction() as session:
        session.execute(text(statement))
    assert not is_out_of_reach(error.value)


def test_neither_is_a_broken_rule(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        factories.submit(session, account_id)
    with pytest.raises(IntegrityError) as error, database.transaction() as session:
        session.execute(text("UPDATE jobs SET state = 'running'"))
    assert not is_out_of_reach(error.value)


@pytest.mark.race
def test_a_row_that_stays_locked_is_given_up_and_tried_again(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_WAIT_SECONDS", 0.1)
    with Database(factories.settings(url_of(database)), "waybill-test-short") as short:
        with database.transaction() as session:
            job_id = factories.submit(session, account_id).job_id
        held, released, tries = threading.Event(), threading.Event(), []

        def hold() -> None:
            with database.transaction() as session:
                session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
                held.set()
                released.wait(20)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(20)

        def change(session: object) -> str:
            tries.append(1)
            if len(tries) == 2:
                released.set()
                thread.join()
            session.execute(text("UPDATE jobs SET title = 'changed'"))  # type: ignore[attr-defined]
            return "changed"

        assert short.persist(change, for_seconds=20) == "changed"
        assert len(tries) == 2


def url_of(database: Database) -> dict[str, str]:
    return {
        "DATABASE_URL": database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False),
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }
