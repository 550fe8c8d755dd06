"""Tests of migrations that wait for a table's lock.

One open reading transaction once stopped a whole site: the release waited for the lock, without a message, and all
later queries of the table waited behind the release. Here real transactions block the real release.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.errors import QueryCanceled
from sqlalchemy import Connection, Engine, create_engine, text

from tasks.ledger.schema import MIGRATIONS
from tasks.settings.connection_urls import with_our_driver
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import process
from webapp.migrations.locks import LOCK_TIMEOUT_SECONDS, ONE_AT_A_TIME, GivenUp, Patience, migrate

UPGRADE = ["-m", "flask", "--app", "wsgi", "db", "upgrade"]
BEFORE = "0009"
"""Names an earlier migration. The migration after it adds a column to the accounts."""
PRIVATE = "the harbour committee"


@pytest.fixture
def older(addresses: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the addresses of the services, with a database of an earlier release."""
    with factories.own_database(addresses["DATABASE_URL"]) as url:
        there = {**addresses, "DATABASE_URL": url}
        completed([*UPGRADE, BEFORE], factories.environment(there), check=True)
        yield there


@contextmanager
def reading(url: str, table: str = "accounts", name: str = "a long report") -> Iterator[psycopg.Connection[Any]]:
    """Open a transaction that has read the table and stays open."""
    with psycopg.connect(url, application_name=name) as connection:
        connection.execute(f"SELECT count(*), '{PRIVATE}' FROM {table}")
        yield connection


def waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database WHERE NOT granted AND datname = %s"
        [found] = connection.execute(query, [connection.info.dbname]).fetchone() or [0]
    return bool(found)


def seconds_of_a_later_reader(url: str, *, bound: float) -> float:
    """Return how many seconds a query of the table takes now; more than `bound` if it gets no result in that time."""
    began = time.monotonic()
    with psycopg.connect(url, autocommit=True, options=f"-c statement_timeout={round(bound * 1000)}") as connection:
        try:
            connection.execute("SELECT count(*) FROM accounts")
        except QueryCanceled:
            return bound + 1
    return time.monotonic() - began


def test_readers_are_answered_while_a_release_waits_and_it_goes_on_afterwards(older: dict[str, str]) -> None:
    url = older["DATABASE_URL"]
    with reading(url) as reader, process(UPGRADE, factories.environment(older)) as release:
        factories.wait_until(lambda: waits_for_a_lock(url), within=40, what=lambda: release.log)
        assert seconds_of_a_later_reader(url, bound=30) < LOCK_TIMEOUT_SECONDS + 2
        release.wait_for_log("The migration waits for the table accounts, held by process")
        [line] = [line for line in release.log.splitlines() if line.startswith("The migration waits")][:1]
        assert f"process {reader.info.backend_pid} (a long report: idle in transaction, for " in line
        assert "last statement SELECT" in line and "gives up in" in line and PRIVATE not in release.log
        reader.rollback()
        assert release.wait() == 0, release.log
    assert version(url) == MIGRATIONS[-1]


def version(url: str) -> str:
    with psycopg.connect(url) as connection:
        [found] = connection.execute("SELECT version_num FROM alembic_version").fetchone() or [""]
    return str(found)


@contextmanager
def engine_of(older: dict[str, str]) -> Iterator[Engine]:
    engine = create_engine(with_our_driver(older["DATABASE_URL"]))
    yield engine
    engine.dispose()


def add_a_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE accounts ADD COLUMN of_a_test text"))


@contextmanager
def released(engine: Engine, patience: Patience, messages: list[str]) -> Iterator[list[BaseException]]:
    """Run a migration in a thread, and yield the list to which its GivenUp is added, if it gives up."""
    ended: list[BaseException] = []

    def run() -> None:
        with engine.connect() as connection:
            try:
                migrate(connection, lambda: add_a_column(connection), patience, messages.append)
            except GivenUp as error:
                ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield ended
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.thorough
@pytest.mark.parametrize("one_try", [0.5, 60.0], ids=["with a limit", "control: without"])
def test_without_a_limit_on_a_lock_every_later_reader_hangs(older: dict[str, str], one_try: float) -> None:
    url, messages = older["DATABASE_URL"], list[str]()
    with engine_of(older) as engine, reading(url) as reader, released(engine, Patience(one_try, 60), messages) as ended:
        factories.wait_until(lambda: waits_for_a_lock(url))
        answered = seconds_of_a_later_reader(url, bound=5) < 5
        assert answered is (one_try < 5)
        reader.rollback()
    assert not ended and bool(messages) is answered


def test_it_gives_up_in_the_end_and_says_who_was_in_the_way(older: dict[str, str]) -> None:
    messages: list[str] = []
    url = older["DATABASE_URL"]
    with engine_of(older) as engine, reading(url, name="rep\tört\x7f" + "x" * 100) as reader:
        with released(engine, Patience(0.7, 1.5), messages) as ended:
            pass
        assert f"process {reader.info.backend_pid} (" in str(ended[0]) and "Nothing was changed" in str(ended[0])
        assert str(ended[0]).isprintable() and PRIVATE not in str(ended[0]) and len(str(ended[0])) < 400


def test_a_release_says_that_it_waits_for_another_one(older: dict[str, str]) -> None:
    url = older["DATABASE_URL"]
    with psycopg.connect(url, application_name="waybill-release") as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [ONE_AT_A_TIME])
        with process(UPGRADE, factories.environment(older)) as release:
            release.wait_for_log("The migration waits for another release, held by process", within=40)
            other.rollback()
            assert release.wait() == 0, release.log
    assert version(url) == MIGRATIONS[-1]


def test_a_database_user_who_cannot_see_others_still_learns_the_process(older: dict[str, str]) -> None:
    """Cover hosts whose database users cannot see the activity of other users."""
    messages: list[str] = []
    with factories.role_with_few_connections(older, 10) as few, engine_of(older) as engine:
        with engine.begin() as owner:
            name = few["DATABASE_URL"].split("://")[1].split("@")[0].split(":")[0]
            owner.execute(text(f"CREATE TABLE own (id int); ALTER TABLE own OWNER TO {name}"))
        with engine_of(few) as limited, reading(older["DATABASE_URL"], "own"), limited.connect() as connection:

            def alter() -> None:
                connection.execute(text("ALTER TABLE own ADD COLUMN more text"))

            with pytest.raises(GivenUp, match=r"the table own, held by process \d+ \(a long report: state not shown"):
                migrate(connection, alter, Patience(0.7, 1.0), messages.append)


def test_an_error_of_the_migration_itself_is_not_tried_again(older: dict[str, str]) -> None:
    messages: list[str] = []
    with engine_of(older) as engine, engine.connect() as connection:

        def wrong() -> None:
            connection.execute(text("ALTER TABLE nothing ADD COLUMN more text"))

        with pytest.raises(Exception, match="nothing"):
            migrate(connection, wrong, Patience(0.5, 30), messages.append)
    assert not messages


def test_a_release_with_one_free_connection_waits_too(older: dict[str, str]) -> None:
    """Cover a host without a second connection: the blocking process cannot be named, but the release still waits."""
    with factories.role_with_few_connections(older, 1) as few, engine_of(older) as owner, engine_of(few) as engine:
        messages: list[str] = []
        with owner.begin() as connection:
            name = few["DATABASE_URL"].split("://")[1].split("@")[0].split(":")[0]
            connection.execute(text(f"CREATE TABLE own (id int); ALTER TABLE own OWNER TO {name}"))

        def alter() -> None:
            connection.execute(text("ALTER TABLE own ADD COLUMN more text"))

        in_the_way = reading(older["DATABASE_URL"], "own")
        with in_the_way, engine.connect() as connection, pytest.raises(GivenUp, match="cannot see whose"):
            migrate(connection, alter, Patience(0.7, 1.0), messages.append)
