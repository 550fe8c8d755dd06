"""Redis may lose all its data; every accepted job still ends with one result."""

from __future__ import annotations

import uuid

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.delivery import fair_order
from tasks.ledger.reports import job_views
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import asking, worker


@pytest.mark.crash
def test_a_flush_with_twenty_jobs_queued_loses_none(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        for n in range(20):
            factories.submit(session, account_id, f"Report number {n}.".encode())
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}])
        with worker(addresses, slots=2, **asking(fake)) as running:
            fake.wait_for_requests(2)
            factories.wait_until(lambda: queue.depth() == fair_order.PREFETCH)
            queue.connection.flushdb()
            fake.release()

            def all_saved() -> bool:
                with database.transaction() as session:
                    return factories.count(session, "results") == 20

            factories.wait_until(all_saved, within=30, what=running.log)
        assert len(fake.requests) == 20
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=0) == 0
        assert factories.count(session, "deliveries") == 0
