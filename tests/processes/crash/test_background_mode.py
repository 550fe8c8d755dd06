"""Background mode under SIGKILL and cancels: a response that can still be polled is never requested twice."""

from __future__ import annotations

import signal
import time
import uuid
from typing import Any

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.fault_points import POINTS
from tasks.ledger.jobs import deletion
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import Process, asking, worker
from tests.support.site import SHORT, Opened, Site
from tests.support.worker_bench import hurrying

BACKGROUND = {"OPENAI_BACKGROUND": 1, "SWEEP_SECONDS": 0.2}
KILLED = {**BACKGROUND, "LEASE_SECONDS": 1, "MAX_INTERRUPTIONS": 30}
BEFORE_ITS_NAME = {"worker.read", "worker.read_saved", "worker.call_recorded", "worker.response_started"}
AFTER_ITS_NAME = ["worker.response_saved", *(point for point in POINTS if point not in BEFORE_ITS_NAME)]
LONG = "\n\n".join(f"Paragraph <{n}> {'says that the pier is closed. ' * 6}" for n in range(6)).encode()


def killed_at(point: str, addresses: dict[str, str], database: Database, fake: FakeProvider) -> None:
    """Run a worker until it dies at this fault point."""
    with worker(addresses, ready=False, WAYBILL_DIE_AT=point, **asking(fake, **KILLED)) as victim:
        factories.wait_until(
            hurrying(database, lambda: victim.popen.poll() is not None), within=30, every=0.1, what=lambda: victim.log
        )
        assert victim.wait() == -signal.SIGKILL, victim.log


def ended(addresses: dict[str, str], database: Database, fake: FakeProvider, job: uuid.UUID) -> State:
    """Run a worker without faults until the job ends, and return its end state."""

    def finished() -> State | None:
        with database.transaction() as session:
            state = factories.state_of(session, job)
        return state if state in (State.SUCCEEDED, State.FAILED) else None

    with worker(addresses, **asking(fake, **KILLED)) as survivor:
        return State(
            factories.wait_until(hurrying(database, finished), within=30, every=0.1, what=lambda: log_of(survivor))
        )


def log_of(running: Process) -> str:
    return running.log


def outcomes(database: Database, job: uuid.UUID) -> list[str]:
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=5) == 0
        return [call.outcome for call in job_views.calls_of(session, job)]


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(180)
def test_killed_at_every_point_where_the_response_has_a_name_it_is_made_once(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        fake.script([{"mode": "ok", "polls": 1}])
        for point in AFTER_ITS_NAME:
            killed_at(point, addresses, database, fake)
        assert ended(addresses, database, fake, job) is State.SUCCEEDED
        assert len(fake.generations) == len(fake.requests) == 1
    assert outcomes(database, job) == ["succeeded"]
    with database.transaction() as session:
        assert (factories.count(session, "results"), factories.count(session, "deliveries")) == (1, 0)


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.parametrize(
    ("kills", "state", "generations", "recorded"),
    [
        (["worker.read", "worker.read_saved", "worker.call_recorded"], State.SUCCEEDED, 1, ["unknown", "succeeded"]),
        (["worker.response_started"], State.SUCCEEDED, 2, ["unknown", "succeeded"]),
        (["worker.response_started"] * 2, State.FAILED, 2, ["unknown", "unknown"]),
    ],
)
def test_what_is_lost_before_it_has_a_name_is_unknown_and_repeated_once_at_most(
    addresses: dict[str, str],
    database: Database,
    queue: DeliveryQueue,
    account_id: uuid.UUID,
    kills: list[str],
    state: State,
    generations: int,
    recorded: list[str],
) -> None:
    with database.transaction() as session:
        job = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        for point in kills:
            killed_at(point, addresses, database, fake)
        assert ended(addresses, database, fake, job) is state
        assert len(fake.generations) == generations
    assert outcomes(database, job) == recorded


def wait_for_names(here: Site, *jobs: uuid.UUID) -> None:
    """Wait until each of these jobs waits for its response, and no worker holds a claim."""

    def all_wait() -> bool:
        with here.database.transaction() as session:
            named = [call.response_id for job in jobs for call in job_views.calls_of(session, job) if call.response_id]
        return len(named) >= len(jobs) and all(here.view(job).state is State.QUEUED for job in jobs)

    factories.wait_until(all_wait, what=lambda: log_of(here.worker))


@pytest.mark.crash
def test_one_slot_is_enough_for_many_that_wait_at_the_provider(site: Opened) -> None:
    with site({"mode": "gate"}, slots=1, **BACKGROUND) as here:
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(3)]
        wait_for_names(here, *jobs)
        assert len(here.fake.generations) == 3
        here.fake.release()
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED)
            assert here.calls(job) == ["succeeded"]
        assert len(here.fake.generations) == 3


@pytest.mark.crash
@pytest.mark.parametrize("faster", [False, True])
def test_a_cancel_while_it_waits_reaches_the_provider_within_seconds(site: Opened, faster: bool) -> None:
    step = {"mode": "ok", "polls": 99, "on_cancel": "faster"} if faster else {"mode": "never"}
    with site(step, OPENAI_STORE_AFTER=0, **BACKGROUND) as here:
        job = here.submit()
        wait_for_names(here, job)
        state = here.cancel(job)
        asked_at = time.monotonic()
        assert state in (State.CANCELLED, State.CANCEL_REQUESTED)  # a poll may be in flight
        (generation,) = here.fake.generations
        here.fake.wait_for(lambda: generation.cancels > 0 and generation.deletes > 0, timeout=6)
        assert time.monotonic() - asked_at < 6
        here.wait_for(job, State.CANCELLED)
        assert here.calls(job) == ["succeeded" if faster else "cancelled"]
        assert (here.results(), here.orphans(), len(here.fake.generations)) == (0, 0, 1)


@pytest.mark.crash
@pytest.mark.parametrize("during", ["start", "look"])
def test_a_cancel_while_the_provider_is_asked_is_heard_within_seconds(site: Opened, during: str) -> None:
    step: dict[str, Any] = {"mode": "hang"} if during == "start" else {"mode": "never", "looks": [{"mode": "hang"}] * 9}
    with site(step, **BACKGROUND) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        if during == "look":
            wait_for_names(here, job)
            factories.wait_until(hurrying(here.database, lambda: here.fake.generations[0].looks > 0))
        assert here.cancel(job) is State.CANCEL_REQUESTED
        here.wait_for(job, State.CANCELLED, within=6)
        factories.wait_until(lambda: here.calls(job) == ["cancelled"] or here.fake.generations[0].cancels > 0)
        assert here.results() == 0


@pytest.mark.crash
def test_a_job_past_its_deadline_ends_and_its_response_is_cancelled_as_for_a_deleted_job(site: Opened) -> None:
    with site({"mode": "never"}, **BACKGROUND) as here:
        deleted = here.submit(b"a text that is deleted")
        wait_for_names(here, deleted)
        late = here.submit(b"a text that takes too long", deadline_seconds=3)
        with here.database.transaction() as session:
            deletion.delete_document(session, here.view(deleted).document_id, here.account_id)
        assert here.wait_for(late, State.FAILED).error_category == "deadline"
        first, second = here.fake.generations
        here.fake.wait_for(lambda: first.deletes > 0 and second.cancels > 0)
        factories.wait_until(lambda: here.calls(late) == ["cancelled"])
        assert (second.status, second.deletes) == ("cancelled", 0)


@pytest.mark.crash
def test_a_long_document_survives_a_kill_while_all_its_parts_wait(site: Opened) -> None:
    limits = {**SHORT, **BACKGROUND, "CALL_CHARS": 200, "PARTS_AT_ONCE": 6, "LEASE_SECONDS": 1}
    with site({"mode": "gate"}, **limits) as here:
        job = here.submit(LONG)
        here.fake.wait_for(lambda: len(here.fake.generations) == 6)
        factories.wait_until(lambda: here.view(job).state is State.QUEUED)
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        here.fake.release()
        with worker(here.addresses, **asking(here.fake, **limits)) as survivor:
            factories.wait_until(
                hurrying(here.database, lambda: here.view(job).state is State.SUCCEEDED),
                every=0.1,
                what=lambda: log_of(survivor),
            )
        with here.database.transaction() as session:
            steps = [call.step for call in job_views.calls_of(session, job)]
        assert len(steps) == len(set(steps)) == len(here.fake.generations)
        assert set(here.calls(job)) == {"succeeded"}
        assert here.view(job).attempt == 1
