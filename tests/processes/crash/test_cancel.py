"""A cancel takes effect within seconds, closes the connection, and never ends in a result."""

from __future__ import annotations

import time

import pytest

from tasks.ledger.states import State
from tests.support.site import Opened


@pytest.mark.crash
def test_a_cancel_ends_a_running_call_within_seconds_and_closes_its_connection(site: Opened) -> None:
    with site({"mode": "hang"}) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        assert here.cancel(job) is State.CANCEL_REQUESTED
        asked_at = time.monotonic()
        here.wait_for(job, State.CANCELLED, within=6)
        assert time.monotonic() - asked_at < 4
        here.fake.wait_for_client_gone()
        assert here.calls(job) == ["cancelled"]
        assert here.outcomes(job) == ["cancelled"]
        assert here.results() == 0


@pytest.mark.crash
def test_a_job_that_nobody_works_on_is_cancelled_at_once(site: Opened) -> None:
    with site({"mode": "gate"}, {"mode": "rate", "retry_after": 60}, slots=1) as here:
        busy = here.submit(b"the first text")
        here.fake.wait_for_requests(1)
        queued = here.submit(b"the second text")
        assert here.cancel(queued) is State.CANCELLED
        assert here.cancel(queued) is None
        here.fake.release()
        here.wait_for(busy, State.SUCCEEDED)
        waiting = here.submit(b"the third text")
        here.wait_for(waiting, State.RETRY_WAIT)
        assert here.cancel(waiting) is State.CANCELLED
        assert here.view(waiting).next_attempt_at is None
        assert here.cancel(busy) is None
        assert here.view(busy).state is State.SUCCEEDED
        assert here.results() == 1
