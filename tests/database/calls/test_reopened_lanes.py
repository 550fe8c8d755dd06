"""Tests of opening a lane while a job is about to wait for it: no job is left waiting for an open lane."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Refused
from tasks.ledger.models import Delivery
from tasks.ledger.reports import job_views
from tests.support import factories

LANE = "local"
StartWaiting = Callable[[Session], object]


@pytest.fixture(params=["without a claim", "with a claim"])
def start_waiting(request: pytest.FixtureRequest, database: Database, account_id: uuid.UUID) -> StartWaiting:
    """Return a function that makes a job wait for the stopped lane: a refused claim, or a refused provider call."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id) if request.param == "with a claim" else None
        lanes.stop(session, LANE, category=Category.AUTH, code=None)
        closed = lanes.check(session, LANE)
    assert isinstance(closed, Closed)

    def wait(session: Session) -> object:
        if claim is not None:
            return transitions.release(session, claim, reason="lane", interrupted=False, behind=(LANE, closed))
        return transitions.claim(session, job_id, worker="w", lane=LANE, lease_seconds=9, reservation_seconds=60)

    return wait


def in_a_thread(database: Database, work: Callable[[Session], object], threads: ThreadPoolExecutor) -> Future[object]:
    def run() -> object:
        with database.transaction() as session:
            return work(session)

    return threads.submit(run)


def waits(database: Database) -> bool:
    """Return True if a transaction waits for a locked row."""
    with database.transaction() as session:
        return (
            factories.count(session, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
            > 0
        )


def open_it(session: Session) -> object:
    return lanes.resume(session, LANE, by="ops", spread_seconds=0)


def lane_waited_for(database: Database) -> str | None:
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=0) == 0
        owed = session.execute(select(Delivery.lane)).all()
    return owed[0].lane if owed else None  # no delivery is owed if the job was claimed


@pytest.mark.race
def test_a_job_does_not_wait_for_a_lane_that_is_being_opened(database: Database, start_waiting: StartWaiting) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as session:
            assert open_it(session) == 0
            waiting = in_a_thread(database, start_waiting, threads)
            factories.wait_until(lambda: waits(database) or waiting.done())
        assert waiting.result(20) != Refused("lane")
    assert lane_waited_for(database) is None


@pytest.mark.race
def test_opening_the_lane_waits_for_a_job_that_starts_to_wait_and_releases_it(
    database: Database, start_waiting: StartWaiting
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as session:
            start_waiting(session)
            opening = in_a_thread(database, open_it, threads)
            factories.wait_until(lambda: waits(database) or opening.done())
            assert not opening.done()
        assert opening.result(20) == 1
    assert lane_waited_for(database) is None


@pytest.mark.race
def test_control_without_the_lock_the_job_waits_for_an_open_lane(
    database: Database, start_waiting: StartWaiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "check_and_lock", lanes.check)
    looked, opened = threading.Event(), threading.Event()
    postpone = lanes.postpone_delivery

    def slowly(*about: object, **more: float) -> object:
        looked.set()
        assert opened.wait(20)
        return postpone(*about, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(lanes, "postpone_delivery", slowly)
    with ThreadPoolExecutor(1) as threads:
        waiting = in_a_thread(database, start_waiting, threads)
        assert looked.wait(20)
        with database.transaction() as session:
            open_it(session)
        opened.set()
        waiting.result(20)
    assert lane_waited_for(database) == LANE
