"""Tests of concurrent reconcilers: any number may run at the same time, and each finding is handled once."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Refused
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.maintenance.reconciler import Reconciler
from tasks.settings import Settings
from tests.support import factories


def reconciler(database: Database, settings: Settings) -> Reconciler:
    return Reconciler(database.transaction, settings, lambda: None)


@pytest.mark.race
def test_four_sweeps_at_once_settle_each_finding_once(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        jobs = [factories.submit(session, account_id, f"text {n}".encode()).job_id for n in range(12)]
        for job in jobs[:4]:
            factories.claim(session, job)
            factories.let_the_lease_run_out(session, job)
        session.execute(
            text("UPDATE jobs SET deadline_at = now() - interval '1 second' WHERE id = ANY(:ids)"), {"ids": jobs[4:8]}
        )
        session.execute(text("DELETE FROM deliveries WHERE job_id = ANY(:ids)"), {"ids": jobs[8:]})
    moved = factories.all_at_once([reconciler(database, settings).step] * 4)
    assert sum(one for one in moved if isinstance(one, int)) == 12, moved
    with database.transaction() as session:
        assert {factories.state_of(session, job) for job in jobs[:4]} == {State.RETRY_WAIT}
        assert {factories.state_of(session, job) for job in jobs[4:8]} == {State.FAILED}
        assert job_views.orphans(session, grace_seconds=0) == 0
        assert [attempt.outcome for attempt in job_views.attempts_of(session, jobs[0])] == ["lost"]
        assert reconciler(database, settings).step() == 0


def test_a_job_that_waits_for_a_stopped_lane_at_its_deadline_fails_with_the_lanes_cause(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        behind = factories.submit(session, account_id, b"waits for the lane").job_id
        late = factories.submit(session, account_id, b"waits for a worker").job_id
        lanes.stop(session, settings.lane, category=Category.QUOTA, code="insufficient_quota")
    with database.transaction() as session:
        claim = transitions.claim(
            session, behind, worker="w", lane=settings.lane, lease_seconds=9, reservation_seconds=60
        )
        assert claim == Refused("lane")
        session.execute(text("UPDATE jobs SET deadline_at = now()"))
    assert reconciler(database, settings).step() == 2
    with database.transaction() as session:
        views = {job: job_views.any_job(session, job) for job in (behind, late)}
    assert [(view.error_category, view.error_code) for view in views.values() if view is not None] == [
        ("quota", "lane_closed"),
        ("deadline", "not_done_in_time"),
    ]
