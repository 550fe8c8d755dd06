"""SIGKILL at every named moment, then a fresh worker: one job, one result, nothing owed, no orphan."""

from __future__ import annotations

import signal
import uuid

import pytest

from tasks.database import Database
from tasks.fault_points import POINTS
from tasks.ledger import queries
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import house
from tests.support.fake_provider import FakeProvider
from tests.support.processes import asking, worker

# After these the provider was asked; its answer is saved from `worker.answer_saved` on.
PAID_AND_LOST = {"worker.answered"}


@pytest.mark.crash
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_still_ends_in_one_result(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID, point: str
) -> None:
    with database.transaction() as session:
        job_id = house.submit(session, account_id).job_id
    with FakeProvider() as fake:
        provider = asking(fake, LEASE_SECONDS=1, SWEEP_SECONDS=0.2)
        with worker(addresses, ready=False, WAYBILL_DIE_AT=point, **provider) as victim:
            assert victim.wait() == -signal.SIGKILL, victim.log
        with worker(addresses, **provider) as survivor:

            def finished() -> bool:
                with database.transaction() as session:
                    return house.state_of(session, job_id) is State.SUCCEEDED

            house.wait_until(finished, within=25, what=survivor.log)
        asked = len(fake.requests)
    with database.transaction() as session:
        assert house.count(session, "results") == 1
        assert house.count(session, "deliveries") == 0
        assert queries.orphans(session, grace_seconds=0) == 0
        calls = queries.calls_of(session, job_id)
        attempts = queries.attempts_of(session, job_id)
    assert asked == (2 if point in PAID_AND_LOST else 1)
    assert asked <= len(calls)  # every request the provider saw has a row
    assert sum(attempt.outcome == "succeeded" for attempt in attempts) == 1
