from __future__ import annotations

import uuid

from tasks.database import Database
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import process


def test_a_burst_turns_a_recorded_job_into_a_saved_summary_and_ends(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with process(["-m", "tasks", "worker", "--burst"], factories.environment(addresses)) as burst:
        assert burst.wait() == 0, burst.log
        with database.transaction() as session:
            view = job_views.job_of(session, job_id, account_id)
            assert view is not None
            assert view.state is State.SUCCEEDED, burst.log
            assert job_views.result_of(session, job_id, account_id) is not None
            assert job_views.live_workers(session, queue=factories.QUEUE, seen_within_seconds=60) == 0, (
                "it said goodbye"
            )
