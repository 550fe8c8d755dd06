"""SIGKILL at every fault point, then a new worker: one job, one result, nothing owed, no orphan."""

from __future__ import annotations

import signal
import uuid

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.fault_points import POINTS
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import asking, worker

# After these points the provider was called; its answer is saved from `worker.answer_saved` on.
PAID_AND_LOST = {"worker.answered"}


@pytest.mark.crash
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_still_ends_in_one_result(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID, point: str
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with FakeProvider() as fake:
        provider = asking(fake, LEASE_SECONDS=1, SWEEP_SECONDS=0.2)
        with worker(addresses, ready=False, WAYBILL_DIE_AT=point, **provider) as victim:
            assert victim.wait() == -signal.SIGKILL, victim.log
        with worker(addresses, **provider) as survivor:

            def finished() -> bool:
                with database.transaction() as session:
                    return factories.state_of(session, job_id) is State.SUCCEEDED

            factories.wait_until(finished, within=25, what=survivor.log)
        asked = len(fake.requests)
    with database.transaction() as session:
        assert factories.count(session, "results") == 1
        assert factories.count(session, "deliveries") == 0
        assert job_views.orphans(session, grace_seconds=0) == 0
        calls = job_views.calls_of(session, job_id)
        attempts = job_views.attempts_of(session, job_id)
    assert asked == (2 if point in PAID_AND_LOST else 1)
    assert asked <= len(calls)  # every request the provider saw has a row
    assert sum(attempt.outcome == "succeeded" for attempt in attempts) == 1
