"""A real worker soon serves the single job of a user, even after another user has handed in many."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from tasks.ledger.delivery import fair_order
from tasks.ledger.models import Job
from tasks.ledger.states import State
from tests.support import factories
from tests.support.site import Opened

SLOTS, MANY = 2, 16


@pytest.mark.timeout(120)
def test_the_only_job_of_one_does_not_wait_for_all_of_another(site: Opened) -> None:
    with site({"mode": "gate", "text": "The summary."}, slots=SLOTS) as here:
        many = [here.submit(f"Report {n}.".encode()) for n in range(MANY)]
        here.fake.wait_for_requests(SLOTS)
        with here.database.transaction() as session:
            one = factories.submit(session, factories.make_account(session)).job_id
        here.fake.release()
        for job_id in (one, *many):
            here.wait_for(job_id, State.SUCCEEDED, within=60)
        with here.database.transaction() as session:
            begun = select(Job.started_at).where(Job.id == one).scalar_subquery()
            before = session.execute(
                select(func.count()).select_from(Job).where(Job.id != one, Job.started_at < begun)
            ).scalar_one()
        assert before <= SLOTS + fair_order.PREFETCH + 2, (
            "those at work, those in the queue, and what was just being moved"
        )
