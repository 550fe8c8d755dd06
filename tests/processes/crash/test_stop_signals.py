"""Deploys stop workers often: nothing is lost, no attempt is counted, and the job runs again at once."""

from __future__ import annotations

import signal
import time
import uuid

import psutil
import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import Process, asking, worker


def saved(database: Database, job_id: uuid.UUID) -> bool:
    with database.transaction() as session:
        return factories.state_of(session, job_id) is State.SUCCEEDED


def stop_once(child: Process) -> None:
    child.signal(signal.SIGTERM)


def stop_twice(child: Process) -> None:
    child.signal(signal.SIGTERM)
    child.signal(signal.SIGTERM)


def stop_the_whole_tree(child: Process) -> None:
    """Send the signal to every process, as some hosts do, the sandboxed readers in their own sessions included."""
    tree = [*psutil.Process(child.popen.pid).children(recursive=True), psutil.Process(child.popen.pid)]
    for one in tree:
        one.send_signal(signal.SIGTERM)


def interrupt(child: Process) -> None:
    child.signal(signal.SIGINT)


@pytest.mark.crash
@pytest.mark.parametrize("stop", [stop_once, stop_twice, stop_the_whole_tree, interrupt])
def test_work_that_fits_into_the_grace_is_finished(
    addresses: dict[str, str],
    database: Database,
    queue: DeliveryQueue,
    account_id: uuid.UUID,
    stop: object,
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}])
        with worker(addresses, **asking(fake, SHUTDOWN_GRACE_SECONDS=20)) as leaving:
            fake.wait_for_requests(1)
            stop(leaving)  # type: ignore[operator]
            fake.release()
            assert leaving.wait() == 0, leaving.log
        assert len(fake.requests) == 1
    assert saved(database, job_id)


@pytest.mark.crash
def test_work_that_does_not_fit_is_handed_back_uncounted_and_goes_on_elsewhere(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}, {"mode": "ok"}])
        with worker(addresses, **asking(fake, SHUTDOWN_GRACE_SECONDS=1)) as leaving:
            fake.wait_for_requests(1)
            stop_once(leaving)
            assert leaving.wait() == 0, leaving.log
        fake.wait_for_client_gone()
        with database.transaction() as session:
            assert factories.state_of(session, job_id) is State.QUEUED
            assert job_views.orphans(session, grace_seconds=0) == 0
        with worker(addresses, **asking(fake)) as next_release:
            factories.wait_until(lambda: saved(database, job_id), what=next_release.log)
        with database.transaction() as session:
            attempts = job_views.attempts_of(session, job_id)
            calls = job_views.calls_of(session, job_id)
    assert [(attempt.number, attempt.outcome) for attempt in attempts] == [(1, "released"), (1, "succeeded")]
    assert [call.outcome for call in calls] == ["unknown", "succeeded"]


@pytest.mark.crash
@pytest.mark.parametrize(
    "pooler", ["none", pytest.param("transaction", marks=pytest.mark.thorough)], ids=["", "control: by the lease alone"]
)
def test_a_killed_workers_job_runs_again_long_before_its_lease_ends(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID, pooler: str
) -> None:
    lease = 12
    with database.transaction() as session:
        factories.submit(session, account_id)
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}, {"mode": "ok"}])
        settings = asking(fake, LEASE_SECONDS=lease, DATABASE_POOLER=pooler)
        with worker(addresses, **settings) as victim:
            fake.wait_for_requests(1)
            with worker(addresses, **settings):
                with database.transaction() as session:  # as if both had worked for a while
                    session.execute(text("UPDATE workers SET steady_since = now() - interval '1 minute'"))
                victim.signal(signal.SIGKILL)
                killed_at = time.time()
                victim.wait()
                second = fake.wait_for_requests(2, timeout=lease + 8)[1]
    assert (second.at - killed_at < 8) is (pooler == "none")


@pytest.mark.crash
def test_a_killed_workers_job_is_taken_back_within_the_lease_and_two_seconds_and_runs_again(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    lease = 3
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}, {"mode": "ok"}])
        settings = asking(fake, LEASE_SECONDS=lease, SWEEP_SECONDS=0.5)
        with worker(addresses, **settings) as victim:
            first = fake.wait_for_requests(1)[0]
            with worker(addresses, **settings) as other:
                victim.signal(signal.SIGKILL)
                killed_at = time.time()
                victim.wait()
                second = fake.wait_for_requests(2, timeout=lease + 8)[1]
                factories.wait_until(lambda: saved(database, job_id), what=other.log)
    assert second.at > first.at
    with database.transaction() as session:
        lost, again = job_views.attempts_of(session, job_id)
        assert lost.ended_at is not None and lost.ended_at.timestamp() - killed_at <= lease + 2
        assert (lost.outcome, lost.number) == ("lost", 1)
        assert (again.outcome, again.number) == ("succeeded", 1)
