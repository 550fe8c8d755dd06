"""One statement tells all loops of a worker what is due, and an idle worker asks little of PostgreSQL and Redis."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.ledger.reports.due_work import Work, due_work
from tasks.maintenance.reconciler import Reconciler
from tasks.settings import Settings
from tasks.worker.due_watch import EVERYTHING, DueWatch
from tests.support import factories
from tests.support.processes.processes import worker
from webapp.local.ports import free_port

LANE = "a lane"
IDLE_SECONDS = 20
MAX_STATEMENTS, MAX_COMMANDS = 60, 60  # in that time; with a loop of its own for each it was 570 and 350


def due(session: Session) -> frozenset[Work]:
    return due_work(session, queue=factories.QUEUE, lane=LANE, retention_days=30)


@pytest.fixture
def finished(database: Database, account_id: uuid.UUID) -> uuid.UUID:
    """Return a job that was cancelled, so that nothing is due for it."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        transitions.cancel(session, job_id, account_id)
    return job_id


def test_nothing_is_due_on_an_idle_site(database: Database, finished: uuid.UUID) -> None:
    with database.transaction() as session:
        assert due(session) == frozenset()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("UPDATE jobs SET finished_at = now() - interval '31 days'", {Work.SWEEPS}),
        (
            "INSERT INTO replays (id, queue, cause, note, by, per_minute, state, next_at, category)"
            " VALUES (gen_random_uuid(), :queue, 'other', 'why', 'op', 60, 'running', now(), 'connection')",
            {Work.REPLAYS},
        ),
        (
            "INSERT INTO notices (id, queue, key, channel, target, what, facts, due_at)"
            " VALUES (gen_random_uuid(), :queue, 'k', 'email', 'a@example.org', 'alert.raised', '{}', now())",
            {Work.MAILS},
        ),
        (
            "INSERT INTO notices (id, queue, key, channel, target, what, facts, due_at)"
            " VALUES (gen_random_uuid(), :queue, 'k', 'webhook', 'https://example.org', 'alert.raised', '{}', now())",
            {Work.WEBHOOKS},
        ),
        ("INSERT INTO left_responses (response_id, lane) VALUES ('resp_1', :lane)", {Work.RESPONSES}),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, set) else "",
)
def test_each_kind_of_work_is_noticed(database: Database, finished: uuid.UUID, made: str, expected: set[Work]) -> None:
    with database.transaction() as session:
        session.execute(text(made), {"queue": factories.QUEUE, "lane": LANE} if ":" in made else {})
        assert due(session) == expected
        session.rollback()


def test_an_unfinished_job_is_swept_for_and_its_delivery_sent(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        factories.submit(session, account_id)
        assert due(session) == {Work.DELIVERIES, Work.SWEEPS}


def test_what_is_due_wakes_the_dispatcher_and_lets_a_loop_step(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    woken: list[bool] = []
    watch = DueWatch(database, settings, lambda: woken.append(True))
    may_sweep = watch.is_due(Work.SWEEPS)
    assert may_sweep(), "before it has asked, everything may be due"
    watch.step()
    assert not may_sweep() and not woken
    with database.transaction() as session:
        factories.submit(session, account_id)
    watch.step()
    assert may_sweep() and woken


def test_without_the_database_everything_may_be_due(settings: Settings) -> None:
    address = type(settings.database_url)(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    away = settings.model_copy(update={"database_url": address})
    with Database(away, "waybill-away") as database:
        watch = DueWatch(database, away, lambda: None)
        watch.step()
        assert all(watch.is_due(work)() for work in EVERYTHING)


def test_a_loop_that_has_nothing_to_do_asks_nothing(database: Database, settings: Settings) -> None:
    asked, stopping = [], threading.Event()

    def is_due() -> bool:
        asked.append(True)
        if len(asked) == 3:
            stopping.set()
        return False

    def transaction() -> Callable[..., object]:
        raise AssertionError("it asked the database")

    quick = settings.model_copy(update={"sweep_seconds": 0.01})
    Reconciler(transaction, quick, lambda: None).run(stopping, is_due)  # type: ignore[arg-type]
    assert len(asked) == 3


@pytest.mark.thorough
def test_an_idle_worker_asks_little(
    addresses: dict[str, str], database: Database, finished: uuid.UUID, queue: object
) -> None:
    def sent() -> tuple[int, int]:
        with database.transaction() as session:
            transactions = session.execute(
                text("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
            ).scalar_one()
        commands = queue.connection.info("commandstats")  # type: ignore[attr-defined]
        return transactions, sum(command["calls"] for command in commands.values())

    with worker(addresses) as process:
        process.wait_for_log("worker.started", within=60)
        stop = threading.Event()
        stop.wait(5)
        before = sent()
        stop.wait(IDLE_SECONDS)
        after = sent()
    assert after[0] - before[0] <= MAX_STATEMENTS
    assert after[1] - before[1] <= MAX_COMMANDS
