"""Workers that freeze, get stuck or crash on a document: each job still ends once."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tasks.database import Database
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.support import factories
from tests.support.processes.processes import asking, worker
from tests.support.site import SHORT, Opened


@pytest.mark.crash
def test_a_worker_frozen_past_its_lease_cannot_save_when_it_wakes(site: Opened) -> None:
    lease = {"LEASE_SECONDS": 1, "SWEEP_SECONDS": 0.2}
    with site(
        {"mode": "gate", "text": "from the frozen one"}, {"mode": "ok", "text": "from the fresh one"}, **lease
    ) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        here.worker.signal(signal.SIGSTOP)
        with worker(here.addresses, **asking(here.fake, **lease)):
            # It may have been stopped within a transaction; the server releases its locks after a while.
            here.wait_for(job, State.SUCCEEDED, within=60)
            here.fake.release()
            here.worker.signal(signal.SIGCONT)
            here.worker.wait_for_log("attempt.claim_lost")
        with here.database.transaction() as session:
            result = job_views.result_of(session, job, here.account_id)
        assert result is not None
        assert result.text == "from the fresh one"
        assert here.outcomes(job) == ["lost", "succeeded"]
        late, used = here.calls(job)  # the late answer may have been cut off or have arrived: both are correct
        assert late in ("unknown", "succeeded") and used == "succeeded"


@pytest.mark.crash
def test_a_job_that_kills_its_worker_again_and_again_ends_as_crashed(
    addresses: dict[str, str], database: Database, site: Opened
) -> None:
    lease = {"LEASE_SECONDS": 0.5, "SWEEP_SECONDS": 0.1, "MAX_INTERRUPTIONS": 2}
    with site({"mode": "ok"}, slots=1, **lease) as here:
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        job = here.submit()
        for _ in range(3):
            with worker(addresses, ready=False, WAYBILL_DIE_AT="worker.read", **asking(here.fake, **lease)) as poisoned:
                assert poisoned.wait() == -signal.SIGKILL
        with worker(addresses, **asking(here.fake, **lease)):
            view = here.wait_for(job, State.FAILED)
            assert (view.error_category, view.error_code) == ("crashed", "interrupted_too_often")
            assert view.attempt == 0
            good = here.submit(b"A good text behind the poisoned one.")
            here.wait_for(good, State.SUCCEEDED)
        assert here.orphans() == 0


@pytest.mark.crash
def test_a_killed_reader_costs_two_seconds_at_most_and_no_attempt(site: Opened) -> None:
    with site({"mode": "ok"}) as here:
        here.wait_for(here.submit(b"A first text, so that the reader is there."), State.SUCCEEDED)
        reader = factories.wait_until(
            lambda: [child for child in psutil.Process(here.worker.popen.pid).children(recursive=True)]
        )[0]
        os.kill(reader.pid, signal.SIGKILL)
        job = here.submit(b"A second text, right after the reader was killed.")
        here.wait_for(job, State.SUCCEEDED, within=4)
        assert here.outcomes(job) == ["succeeded"]
        with here.database.transaction() as session:
            attempt = job_views.attempts_of(session, job)[0]
        assert attempt.ended_at is not None
        assert (attempt.ended_at - attempt.started_at).total_seconds() < 2


@pytest.mark.crash
def test_a_deadline_that_passes_with_no_worker_alive_is_said_when_one_comes_back(site: Opened) -> None:
    with site({"mode": "ok"}, **SHORT) as here:
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        job = here.submit(deadline_seconds=0.1)
        with worker(here.addresses, **asking(here.fake, **SHORT)):
            view = here.wait_for(job, State.FAILED)
        assert (view.error_category, view.error_code) == ("deadline", "not_done_in_time")
        assert len(here.fake.requests) == 0
