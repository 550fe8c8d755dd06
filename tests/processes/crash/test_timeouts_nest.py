"""Call, attempt, queue, reservation: the innermost limit fires first; each outer limit holds if the inner ones fail."""

from __future__ import annotations

import signal

import pytest

from tasks.database import Database
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.support import factories
from tests.support.processes.processes import asking, worker
from tests.support.site import SHORT, Opened

# SHORT: call 2 s, attempt 5 s, queue 7 s, reservation 9 s


def seconds_of_the_first_attempt(database: Database, job_id: object) -> float:
    with database.transaction() as session:
        attempt = job_views.attempts_of(session, job_id)[0]  # type: ignore[arg-type]
    assert attempt.ended_at is not None
    return (attempt.ended_at - attempt.started_at).total_seconds()


@pytest.mark.crash
def test_the_calls_budget_fires_first_and_leaves_time_to_record_it(site: Opened) -> None:
    with site({"mode": "hang"}, {"mode": "ok"}, **SHORT) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        assert here.calls(job) == ["unknown", "succeeded"]
        assert here.outcomes(job) == ["retry", "succeeded"]
        assert 2.0 <= seconds_of_the_first_attempt(here.database, job) < 3.5


@pytest.mark.crash
def test_the_attempts_budget_holds_when_no_call_can_be_made(site: Opened) -> None:
    with site({"mode": "gate"}, {"mode": "ok"}, slots=2, **{**SHORT, "PROVIDER_CONCURRENCY": 1}) as here:
        first = here.submit(b"the one that holds the only place")
        here.fake.wait_for_requests(1)
        second = here.submit(b"the one that waits for a place")
        here.wait_for(second, State.RUNNING)
        here.wait_for(first, State.FAILED, State.SUCCEEDED, State.RETRY_WAIT)
        here.fake.release()
        here.wait_for(second, State.SUCCEEDED)
        here.wait_for(first, State.SUCCEEDED)
        assert here.outcomes(second)[-1] == "succeeded"
        assert set(here.outcomes(second)[:-1]) <= {"released"}  # waiting for capacity does not count as an attempt


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(150)
def test_the_queues_limit_ends_an_attempt_whose_own_code_never_comes_back(site: Opened) -> None:
    with site({"mode": "ok"}, **SHORT) as here:
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        job = here.submit()
        with worker(here.addresses, **asking(here.fake, **SHORT, WAYBILL_STALL_AT="worker.read_saved")) as stalled:
            here.wait_for(job, State.RETRY_WAIT, within=15)
            assert stalled.popen.poll() is None
        assert here.outcomes(job) == ["timed_out"]
        assert 6.5 <= seconds_of_the_first_attempt(here.database, job) < 9.0
        assert here.results() == 0
        with worker(here.addresses, **asking(here.fake, **SHORT)):
            here.wait_for(job, State.SUCCEEDED)


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(150)
def test_a_slot_that_never_comes_back_makes_the_worker_restart_and_costs_no_other_job(site: Opened) -> None:
    limits = {**SHORT, "SHUTDOWN_GRACE_SECONDS": 3, "SWEEP_SECONDS": 0.2}
    with site({"mode": "ok"}, **limits) as here:
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        job = here.submit()
        with worker(here.addresses, **asking(here.fake, **limits, WAYBILL_HANG_AT="worker.read_saved")) as hung:
            assert hung.wait(within=25) == 1, hung.log
            assert "slot.does_not_come_back" in hung.log
        with worker(here.addresses, **asking(here.fake, **limits)):
            here.wait_for(job, State.SUCCEEDED)
        assert here.outcomes(job) == ["lost", "succeeded"]
        assert here.results() == 1


@pytest.mark.crash
def test_a_claim_is_renewed_for_as_long_as_its_worker_lives(site: Opened) -> None:
    with site({"mode": "gate"}, LEASE_SECONDS=1, SWEEP_SECONDS=0.1) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        first = lease_of(here.database)
        factories.wait_until(lambda: (lease_of(here.database) - first).total_seconds() > 3)
        here.fake.release()
        here.wait_for(job, State.SUCCEEDED)
        assert len(here.fake.requests) == 1
        assert here.outcomes(job) == ["succeeded"]


def lease_of(database: Database):  # type: ignore[no-untyped-def]
    from sqlalchemy import text

    with database.transaction() as session:
        return session.execute(text("SELECT lease_expires_at FROM jobs")).scalar_one()
