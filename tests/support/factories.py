"""Factories for what tests need, using the project's own functions."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import redis
from sqlalchemy import NullPool, TextClause, create_engine, literal, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from tasks.ledger.calls.calls import NewCall
from tasks.ledger.delivery import fair_order
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import AcceptedJob, Intent, NewDocument, accept_job
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.models import Base
from tasks.ledger.states import State
from tasks.ledger.terms import Limits, Terms
from tasks.settings import Settings
from tests.support.processes.fork_server import ROOT as ROOT
from tests.support.processes.fork_server import completed
from webapp.models import Account, BrowserSession, Role

T = TypeVar("T")
QUEUE = "waybill-test"
CALL = NewCall(step="summarise", lane="local", provider="local", model="local", limit=16, probe_seconds=60)
NO_LIMITS = Limits()
TEXT = b"The harbour committee met in March. The north pier will be closed until August. Costs rose to 57,500."


def settings(addresses: dict[str, str], **changed: Any) -> Settings:
    """Return settings for these services, with the times of a test."""
    values: dict[str, Any] = {
        "database_url": addresses["DATABASE_URL"],
        "redis_url": addresses["REDIS_URL"],
        "waybill_demo": True,
        "ai_provider": "local",
        "queue_name": QUEUE,
        "proxy_hops": 0,
        "jobs_per_day": 0,  # tests have no limits, unless they are about them
        "jobs_at_once": 0,
    }
    return Settings(**{**values, **changed})


def environment(addresses: dict[str, str], **changed: str) -> dict[str, str]:
    """Return the environment of a child process for these services."""
    base = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
    ours = {"WAYBILL_DEMO": "1", "AI_PROVIDER": "local", "QUEUE_NAME": QUEUE, "PYTHONWARNINGS": "ignore"}
    ours |= {"JOBS_PER_DAY": "0", "JOBS_AT_ONCE": "0"}
    return {**base, **ours, **addresses, **changed}


def migrate(addresses: dict[str, str]) -> None:
    """Bring the database to the newest schema, as a release does."""
    completed(["-m", "flask", "--app", "wsgi", "db", "upgrade"], environment(addresses), check=True)


@contextmanager
def own_database(address: str, *, template: bool = False) -> Iterator[str]:
    """Create a database on the server of this address; dropped at the end.

    `template` copies the database named there.
    """
    name = f"waybill_test_{uuid.uuid4().hex[:8]}"
    url = make_url(address).set(drivername="postgresql+psycopg")
    # A template must have no connections. No connection is kept meanwhile: a test of an outage would cut it.
    server = create_engine(
        url.set(database="postgres") if template else url, isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}{f' TEMPLATE {url.database}' if template else ''}"))
    try:
        yield url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def role_with_few_connections(
    addresses: dict[str, str], limit: int, *, password: str = "few"
) -> Iterator[dict[str, str]]:
    """Yield the same services, with a database user that may hold this many connections; dropped at the end."""
    url = make_url(addresses["DATABASE_URL"])
    name = f"few_{uuid.uuid4().hex[:8]}"
    server = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            create = f"CREATE ROLE {name} LOGIN PASSWORD '{password}' CONNECTION LIMIT {limit}"
            connection.exec_driver_sql(create.replace("%", "%%"))
            for things in ("TABLES", "SEQUENCES"):
                connection.execute(text(f"GRANT ALL ON ALL {things} IN SCHEMA public TO {name}"))
        yield {
            **addresses,
            "DATABASE_URL": url.set(username=name, password=password).render_as_string(hide_password=False),
        }
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP OWNED BY {name}"))
            connection.execute(text(f"DROP ROLE {name}"))
        server.dispose()


def refuse_a_redis_in_use(address: str) -> None:
    """Refuse a Redis that holds anything: the tests empty it, and it belongs to somebody."""
    with redis.Redis.from_url(address) as connection:
        if connection.dbsize():
            raise SystemExit("REDIS_URL points at a Redis that is in use. The tests would empty it; give them another.")


def empty_redis(address: str) -> None:
    """Delete all keys, over a connection that is closed again, since some tests count connections."""
    with redis.Redis.from_url(address) as connection:
        connection.flushdb()


def empty(session: Session) -> None:
    """Delete all rows. DELETE, since TRUNCATE creates new files for thirty tables, of which most are empty."""
    session.execute(_empty())


@cache
def _empty() -> TextClause:
    tables = [table.name for table in reversed(Base.metadata.sorted_tables)]
    deletes = " ".join(f"DELETE FROM {name};" for name in tables if name != "decisions")
    # A trigger protects each row of the decisions. One statement for all tables, because there are two thousand tests.
    return text(f"DO $$ BEGIN IF EXISTS (SELECT 1 FROM decisions) THEN TRUNCATE decisions; END IF; {deletes} END $$")


def make_account(
    session: Session, email: str | None = None, role: Role = Role.USER, password_hash: str = "-"
) -> uuid.UUID:
    """Create an account and a session, for tests that do not sign in; without a usable password, unless one is given.

    The session has the id of the account, so that `Person` and `session_and_axe.sign_in` know it.
    """
    address = email or f"{uuid.uuid4().hex[:12]}@example.org"
    account = Account(email=address, password_hash=password_hash, role=role)
    session.add(account)
    session.flush()  # the id is needed now
    begin_session(session, account.id)
    return account.id


def begin_session(session: Session, account_id: uuid.UUID) -> None:
    """Create the session that has the id of its account, unless it exists."""
    session.merge(BrowserSession(id=account_id, account_id=account_id, stamp=0))


def submit(
    session: Session,
    account_id: uuid.UUID,
    content: bytes = TEXT,
    *,
    deadline_seconds: float = 600,
    max_attempts: int = 3,
    limits: Limits = NO_LIMITS,
    **intent: Any,
) -> AcceptedJob:
    """Record a job as the web app does."""
    defaults: dict[str, Any] = {
        "title": "Harbour report",
        "workflow": "summary",
        "workflow_version": 1,
        "options": {"length": "medium", "form": "prose"},
    }
    return accept_job(
        session,
        Intent(account_id=account_id, **{**defaults, **intent}),
        NewDocument(content, "txt", "harbour.txt"),
        Terms(QUEUE, deadline_seconds, max_attempts, limits),
    )


def claim(
    session: Session, job_id: uuid.UUID, *, lease_seconds: float = 15, worker: str = "somebody", alone: bool = True
) -> Claim:
    """Return a claim on the job."""
    claim = transitions.claim(
        session, job_id, worker=worker, lane="local", lease_seconds=lease_seconds, reservation_seconds=120, alone=alone
    )
    assert isinstance(claim, Claim), claim
    return claim


def let_the_lease_run_out(session: Session, job_id: uuid.UUID) -> None:
    """Move the end of the lease into the past."""
    session.execute(
        text("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = :id"), {"id": job_id}
    )


def let_the_wait_be_over(session: Session, job_id: uuid.UUID) -> None:
    """Move a scheduled retry to now."""
    session.execute(text("UPDATE deliveries SET not_before = now(), due_at = now() WHERE job_id = :id"), {"id": job_id})


def state_of(session: Session, job_id: uuid.UUID) -> State:
    """Return the state of the job."""
    return State(session.execute(text("SELECT state FROM jobs WHERE id = :id"), {"id": job_id}).scalar_one())


def count(session: Session, table: str) -> int:
    """Return how many rows a table has."""
    return int(session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def constraints(session: Session) -> set[tuple[str, str]]:
    """Return every constraint and index of the database, by name and definition."""
    return {
        (name, definition)
        for query in (
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        )
        for name, definition in session.execute(text(query))
        if "alembic_version" not in f"{name} {definition}"
    }


def jobs_before(session: Session, job_id: uuid.UUID) -> int | None:
    """Return how many jobs come before this one in the queue of the tests."""
    before: int | None = session.execute(select(fair_order.jobs_before(literal(QUEUE), literal(job_id)))).scalar_one()
    return before


def all_at_once(works: list[Callable[[], T]]) -> list[T | Exception]:
    """Run these in threads that start together, and return what each returned or raised."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], T]) -> T | Exception:
        barrier.wait(10)
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


def wait_until(
    fact: Callable[[], Any], *, within: float = 20, every: float = 0.02, what: str | Callable[[], str] = ""
) -> Any:
    """Poll until the result is true, and return it. Fails if it does not become true in time."""
    until = time.monotonic() + within
    while True:
        found = fact()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not within {within} s: {what() if callable(what) else what or fact}")
        time.sleep(every)
