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
Park = Callable[[Session], object]


@pytest.fixture(params=["at the door", "with a claim"])
def park(request: pytest.FixtureRequest, database: Database, account_id: uuid.UUID) -> Park:
    """Return a function that makes a job wait for the stopped lane: a refused claim, or a refused provider call."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        held = factories.claim(session, job_id) if request.param == "with a claim" else None
        lanes.stop(session, LANE, category=Category.AUTH, code=None)
        closed = lanes.door(session, LANE)
    assert isinstance(closed, Closed)

    def parked(session: Session) -> object:
        if held is not None:
            return transitions.release(session, held, reason="lane", interrupted=False, behind=(LANE, closed))
        return transitions.claim(session, job_id, worker="w", lane=LANE, lease_seconds=9, reservation_seconds=60)

    return parked


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


def parked_behind(database: Database) -> str | None:
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=0) == 0
        owed = session.execute(select(Delivery.lane)).all()
    return owed[0].lane if owed else None  # no delivery is owed if the job was claimed


@pytest.mark.race
def test_one_that_parks_while_the_lane_is_being_opened_does_not_park(database: Database, park: Park) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as session:
            assert open_it(session) == 0
            parking = in_a_thread(database, park, threads)
            factories.wait_until(lambda: waits(database) or parking.done())
        assert parking.result(20) != Refused("lane")
    assert parked_behind(database) is None


@pytest.mark.race
def test_who_opens_the_lane_waits_for_one_that_parks_and_lets_it_go(database: Database, park: Park) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as session:
            park(session)
            opening = in_a_thread(database, open_it, threads)
            factories.wait_until(lambda: waits(database) or opening.done())
            assert not opening.done()
        assert opening.result(20) == 1
    assert parked_behind(database) is None


@pytest.mark.race
def test_control_without_holding_the_lane_the_job_waits_for_an_open_door(
    database: Database, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "check_and_lock", lanes.door)
    looked, opened = threading.Event(), threading.Event()
    wait_for = lanes.wait_for

    def slowly(*about: object, **more: float) -> None:
        looked.set()
        assert opened.wait(20)
        wait_for(*about, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(lanes, "wait_for", slowly)
    with ThreadPoolExecutor(1) as threads:
        parking = in_a_thread(database, park, threads)
        assert looked.wait(20)
        with database.transaction() as session:
            open_it(session)
        opened.set()
        parking.result(20)
    assert parked_behind(database) == LANE
