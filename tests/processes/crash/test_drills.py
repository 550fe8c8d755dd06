"""The drills that an operator runs on a host: they pass, can fail, leave nothing behind and touch nothing else."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.drills import cleanup, run
from tasks.drills.catalogue import DRILLS, Drill
from tasks.drills.environment import Means, Stage
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.models import Base
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import Process, process

pytestmark = pytest.mark.crash


def drills(addresses: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m tasks drills …` to its end."""
    return completed(["-m", "tasks", "drills", *arguments], factories.environment(addresses), timeout=170)


OF_ALL_QUEUES = b"rq:clean_groups"  # RQ's lock for its own cleanup, which expires by itself


def everything(database: Database, queue: DeliveryQueue) -> dict[str, Any]:
    """Return every row of the database and every key of Redis."""
    with database.transaction() as session:
        rows: dict[str, Any] = {
            table.name: sorted(map(str, session.execute(text(f"SELECT * FROM {table.name}"))))
            for table in Base.metadata.sorted_tables
        }
    keys = [key for key in queue.connection.scan_iter() if key != OF_ALL_QUEUES]
    return rows | {key.decode(): queue.connection.dump(key) for key in keys}


@pytest.fixture
def somebodys_job(database: Database, queue: DeliveryQueue, account_id: uuid.UUID, settings: Settings) -> uuid.UUID:
    """Set up a real site with a waiting job, its message, and a lane that an operator must resume."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        lanes.stop(session, f"{factories.QUEUE}:openai", category=Category.QUOTA, code="insufficient_quota")
    queue.send(job_id, 1, wait_seconds=0)
    queue.mark_as_known()
    return job_id


PLAYED = {
    "full-redis",
    "killed-with-answer",
    "killed-while-made",
    "invalid-credentials",
    "redis-forgot",
    "sigterm-to-all",
}
"""Names some drills of each kind. `make drills` plays all."""


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_drills_pass_beside_a_real_site_and_leave_no_trace(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, somebodys_job: uuid.UUID
) -> None:
    before = everything(database, queue)
    done = drills(addresses, "--staging", *sorted(PLAYED))
    assert done.returncode == 0, done.stdout + done.stderr
    _, *rows = done.stdout.splitlines()
    assert [row.split()[0] for row in rows] == [drill.name for drill in DRILLS if drill.name in PLAYED]
    assert all(re.search(r"  passed$", row) for row in rows)
    after = everything(database, queue)
    assert {name: after.get(name) for name in {*before, *after} if after.get(name) != before.get(name)} == {}


def test_a_full_redis_is_not_played_where_there_is_no_redis_to_start(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = drills(addresses, "full-redis")
    assert done.returncode == 0, done.stderr
    assert "not played: there is no redis-server or valkey-server on PATH" in done.stdout
    assert accounts(database) == []


def test_refuses_beside_unfinished_work_of_people(addresses: dict[str, str], somebodys_job: uuid.UUID) -> None:
    done = drills(addresses)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "1 jobs of people are not finished" in done.stderr
    assert "--staging" in done.stderr


def test_refuses_a_name_it_does_not_know_and_lists_those_it_does(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue
) -> None:
    assert drills(addresses, "no-such-drill").returncode == 2
    assert drills(addresses, "--list").stdout.count("\n") == len(DRILLS)


@contextmanager
def under_way(addresses: dict[str, str]) -> Iterator[Process]:
    """Yield a run in the middle of a long drill."""
    command = ["-m", "tasks", "drills", "dispatcher-killed"]
    with process(command, factories.environment(addresses)) as running:
        running.wait_for_log("drill.begins")
        yield running


def accounts(database: Database) -> list[cleanup.Names]:
    with database.transaction() as session:
        return cleanup.left_behind(session)


def test_ctrl_c_clears_up(addresses: dict[str, str], database: Database, queue: DeliveryQueue) -> None:
    before = everything(database, queue)
    with under_way(addresses) as running:
        factories.wait_until(lambda: accounts(database))
        running.signal(signal.SIGINT)
        running.signal(signal.SIGINT)
        assert running.wait() == 1, running.log
        assert "failed: interrupted" in running.log
    assert everything(database, queue) == before


@pytest.mark.thorough
def test_what_a_killed_run_leaves_is_removed_by_the_next_and_its_processes_die_with_it(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue
) -> None:
    before = everything(database, queue)
    with under_way(addresses) as running:
        factories.wait_until(lambda: alive(database), within=60, what=lambda: f"the drill's worker in:\n{running.log}")
        running.signal(signal.SIGKILL)
        running.wait()
    assert accounts(database)
    factories.wait_until(lambda: connected(database) == 0, what="the end of the drill's processes")
    done = drills(addresses, "same-message-twice")
    assert done.returncode == 0, done.stderr
    assert "drills.leftover_removed" in done.stderr
    assert everything(database, queue) == before


def alive(database: Database) -> int:
    with database.transaction() as session:
        return factories.count(session, "workers")


def connected(database: Database) -> int:
    """Return how many connections the workers hold."""
    with database.transaction() as session:
        return factories.count(
            session, "pg_stat_activity WHERE datname = current_database() AND application_name = 'waybill-worker'"
        )


def test_two_runs_at_once_are_refused(addresses: dict[str, str], database: Database, queue: DeliveryQueue) -> None:
    with under_way(addresses) as first:
        first.signal(signal.SIGSTOP)  # so that the first still runs, however long the second takes to start
        second = drills(addresses, "same-message-twice")
        first.signal(signal.SIGCONT)
    assert second.returncode == 2
    assert "another run" in second.stderr


@pytest.fixture
def means(settings: Settings, database: Database, queue: DeliveryQueue) -> Means:
    def queue_named(name: str) -> DeliveryQueue:
        return DeliveryQueue(settings.model_copy(update={"queue_name": name}), queue.connection)

    return Means(settings, database, queue_named, threading.Event())


def save_a_result(stage: Stage, job_id: uuid.UUID) -> None:
    """Let a job succeed, without a worker."""
    with stage.transaction() as session:
        session.execute(text("DELETE FROM deliveries WHERE job_id = :id"), {"id": job_id})
        session.execute(text("UPDATE jobs SET state = 'succeeded', finished_at = now() WHERE id = :id"), {"id": job_id})
        session.execute(
            text("INSERT INTO results (job_id, generation, text, facts) VALUES (:id, 1, 'A summary.', '{}')"),
            {"id": job_id},
        )


def nothing_wrong(stage: Stage) -> None:
    save_a_result(stage, stage.submit())


def a_second_result(stage: Stage) -> None:
    """Save a second result for the document of the first job."""
    first, second = stage.submit(), stage.submit()
    for job_id in (first, second):
        save_a_result(stage, job_id)
    with stage.transaction() as session:
        session.execute(
            text("UPDATE jobs SET document_id = (SELECT document_id FROM jobs WHERE id = :first) WHERE id = :second"),
            {"first": first, "second": second},
        )


def a_job_without_an_end(stage: Stage) -> None:
    stage.submit()


def a_job_that_vanishes(stage: Stage) -> None:
    job_id = stage.submit()
    with stage.transaction() as session:
        session.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": job_id})


def an_orphan(stage: Stage) -> None:
    job_id = stage.submit()
    with stage.transaction() as session:
        session.execute(text("DELETE FROM deliveries WHERE job_id = :id"), {"id": job_id})


def a_success_that_was_to_be_a_cancel(stage: Stage) -> None:
    save_a_result(stage, stage.submit(ends=State.CANCELLED))


def something_unforeseen(stage: Stage) -> None:
    raise KeyError("a bug in the drill")


@pytest.mark.parametrize(
    ("play", "verdict"),
    [
        (nothing_wrong, "^passed$"),
        (a_second_result, "^failed: 1 duplicate results$"),
        (a_job_without_an_end, "^failed: 1 lost; 1 deliveries still owed$"),
        (a_job_that_vanishes, "^failed: 1 lost$"),
        (an_orphan, "^failed: 1 lost; 1 orphans$"),
        (a_success_that_was_to_be_a_cancel, "^failed: 1 ended otherwise than it should$"),
        (something_unforeseen, "^failed: could not be played or cleared up: KeyError$"),
    ],
)
def test_a_promise_that_is_broken_makes_the_drill_fail(means: Means, play: Any, verdict: str) -> None:
    row = run.play(means, Drill("planted", "something planted", play))
    assert re.search(verdict, row.verdict), row
    assert accounts(means.database) == []


@pytest.mark.thorough
def test_a_call_nobody_wrote_down_or_made_once_too_often_makes_the_drill_fail(means: Means) -> None:
    def play(stage: Stage) -> None:
        stage.submit()
        stage.worker()
        stage.wait_for()
        (seen,) = stage.fake.requests
        stage.fake.requests += [seen]

    def unrecorded(stage: Stage) -> None:
        stage.submit()
        stage.worker()
        stage.wait_for()
        with stage.transaction() as session:
            session.execute(text("DELETE FROM provider_calls"))

    assert run.play(means, Drill("twice", "", play)).verdict == "failed: 1 calls made twice, where 0 may be"
    assert run.play(means, Drill("unrecorded", "", unrecorded)).verdict == "failed: 1 calls without a row"
