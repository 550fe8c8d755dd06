"""Tests that a document that kills its worker is condemned, and costs the good ones beside it one call at most."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.ledger.states import TERMINAL, State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.poisoned_worker import POISON
from tests.support.processes.processes import Process, asking, process
from tests.support.site import Site

QUICK = {"LEASE_SECONDS": "1", "SWEEP_SECONDS": "0.2", "JOB_DEADLINE_SECONDS": "300"}
GOOD = 5


@contextmanager
def poisoned(addresses: dict[str, str], fake: FakeProvider, **more: str) -> Iterator[Process]:
    variables = factories.environment(addresses, **asking(fake, **QUICK, **more))
    with process(["-m", "tests.support.processes.poisoned_worker", "worker", "--slots", "8"], variables) as running:
        running.wait_for_log("worker.started")
        yield running


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with FakeProvider() as fake:
        yield fake


@pytest.fixture
def jobs(database: Database, queue: DeliveryQueue, account_id: uuid.UUID) -> list[uuid.UUID]:
    with database.transaction() as session:
        texts = [f"A good document, number {number}.".encode() for number in range(GOOD)]
        return [factories.submit(session, account_id, text).job_id for text in texts]


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_the_good_ones_are_saved_after_one_repeated_call_and_the_cause_is_found(
    addresses: dict[str, str],
    database: Database,
    account_id: uuid.UUID,
    fake: FakeProvider,
    jobs: list[uuid.UUID],
) -> None:
    fake.script([{"mode": "gate"}] * (2 * GOOD) + [{"mode": "ok"}])
    with poisoned(addresses, fake) as first:
        fake.wait_for_requests(GOOD)
        with database.transaction() as session:
            poison = factories.submit(session, account_id, POISON).job_id
        assert first.wait() == -signal.SIGKILL
    deaths = 1
    with poisoned(addresses, fake) as second:
        here = Site(fake, database, account_id, addresses, second)
        fake.wait_for_requests(2 * GOOD, timeout=20)
        here.wait_for(poison, State.RETRY_WAIT)
        fake.release()
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED, within=30)
        second.wait()
        deaths += 1
    while here.view(poison).state not in TERMINAL:
        assert deaths < 6
        with poisoned(addresses, fake) as another:
            factories.wait_until(
                lambda: another.popen.poll() is not None or here.view(poison).state in TERMINAL, within=40
            )
            deaths += another.popen.poll() is not None
    assert deaths == 3
    assert (here.view(poison).error_category, here.view(poison).error_code) == ("crashed", "interrupted_too_often")
    assert [sorted(here.calls(job)) for job in jobs] == [["succeeded", "unknown"]] * GOOD
    with database.transaction() as session:
        assert job_views.orphans(session) == 0


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(120)
def test_control_without_isolation_it_takes_its_neighbours_along(
    addresses: dict[str, str], database: Database, account_id: uuid.UUID, fake: FakeProvider, jobs: list[uuid.UUID]
) -> None:
    fake.script([{"mode": "gate"}])
    with poisoned(addresses, fake, WITHOUT_ISOLATION="1") as first:
        fake.wait_for_requests(GOOD)
        with database.transaction() as session:
            factories.submit(session, account_id, POISON)
        assert first.wait() == -signal.SIGKILL
    with poisoned(addresses, fake, WITHOUT_ISOLATION="1") as second:
        assert second.wait(within=40) == -signal.SIGKILL, "while the good ones wait for their second answers"
    with poisoned(addresses, fake, WITHOUT_ISOLATION="1") as third:
        here = Site(fake, database, account_id, addresses, third)
        factories.wait_until(lambda: any(here.calls(job).count("unknown") > 1 for job in jobs), within=60)
