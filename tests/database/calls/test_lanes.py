"""Tests of lanes: one probe finds out if the provider is back, not one call per job; calls in flight are limited."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Refused
from tasks.ledger.models import Delivery, Lane
from tasks.ledger.reports import job_views
from tasks.ledger.states import LaneState, State
from tests.support import factories


def ask(database: Database) -> Closed | Full | None:
    with database.transaction() as session:
        return lanes.ask(session, "local", limit=16, probe_seconds=60)


def cool(database: Database, seconds: float | None) -> float:
    with database.transaction() as session:
        return lanes.cool(session, "local", seconds=seconds, category=Category.RATE_LIMITED, code="rate_limit")


def let_the_cooling_be_over(database: Database) -> None:
    with database.transaction() as session:
        session.execute(text("UPDATE lanes SET until = now() - interval '1 second'"))


def test_a_lane_that_was_never_closed_is_open(database: Database) -> None:
    assert ask(database) is None


def test_a_cooling_lane_is_closed_for_everybody_until_the_given_time(database: Database) -> None:
    assert cool(database, 40) == pytest.approx(40, abs=1)
    closed = ask(database)
    assert isinstance(closed, Closed)
    assert closed.state is LaneState.COOLING
    assert closed.seconds == pytest.approx(40, abs=1)


def test_a_longer_cool_down_is_not_cut_short_by_a_shorter_one(database: Database) -> None:
    cool(database, 90)
    assert cool(database, 1) == pytest.approx(90, abs=1)


def test_without_a_given_time_each_cool_down_is_longer_than_the_one_before(database: Database) -> None:
    lasted = []
    for _ in range(8):
        lasted.append(round(cool(database, None)))
        let_the_cooling_be_over(database)
        assert ask(database) is None  # the probe, which then finds the provider down again
    assert lasted == [2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.race
def test_after_the_cool_down_one_call_probes_and_the_others_wait_for_its_answer(database: Database) -> None:
    cool(database, 40)
    let_the_cooling_be_over(database)
    answers = factories.all_at_once([lambda: ask(database)] * 4)
    assert answers.count(None) == 1
    waiting = [answer for answer in answers if isinstance(answer, Closed)]
    assert len(waiting) == 3
    assert all(answer.seconds is not None and answer.seconds <= lanes.PROBE_WAIT_SECONDS for answer in waiting)
    with database.transaction() as session:
        lanes.record_success(session, "local", spread_seconds=0)
    assert ask(database) is None


def test_a_probe_that_never_answers_makes_way_for_the_next_one(database: Database) -> None:
    cool(database, 40)
    let_the_cooling_be_over(database)
    assert ask(database) is None
    assert isinstance(ask(database), Closed)
    let_the_cooling_be_over(database)
    assert ask(database) is None


def test_a_stopped_lane_opens_only_for_an_operator(database: Database) -> None:
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code="insufficient_quota")
    cool(database, 1)
    with database.transaction() as session:
        lanes.record_success(session, "local", spread_seconds=0)
    closed = ask(database)
    assert isinstance(closed, Closed)
    assert (closed.state, closed.seconds, closed.category) == (LaneState.STOPPED, None, Category.QUOTA)
    with database.transaction() as session:
        assert lanes.resume(session, "local", by="ops@example.org", spread_seconds=0) == 0
        assert lanes.resume(session, "local", by="ops@example.org", spread_seconds=0) is None
        assert session.execute(select(Lane.changed_by)).scalar_one() == "ops@example.org"
    assert ask(database) is None


def test_while_the_lane_is_closed_no_attempt_begins_and_the_delivery_waits(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        before = job_views.any_job(session, job_id)
    cool(database, 40)
    with database.transaction() as session:
        refused = transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=1, reservation_seconds=2)
        assert refused == Refused("lane")
    with database.transaction() as session:
        owed = session.execute(select(Delivery)).scalar_one()
        assert owed.lane == "local"
        wait = session.execute(
            select(text("extract(epoch FROM not_before - now())")).select_from(Delivery)
        ).scalar_one()
        assert 39 <= wait <= 43
        after = job_views.any_job(session, job_id)
        assert before is not None and after is not None
        assert after.revision > before.revision  # so that the page is updated
        assert after.state is State.QUEUED
        assert factories.count(session, "attempts") == 0
        assert job_views.orphans(session, grace_seconds=0) == 0


def test_when_the_lane_opens_all_waiting_jobs_may_run(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        jobs = [factories.submit(session, account_id, f"text {n}".encode()).job_id for n in range(5)]
        lanes.stop(session, "local", category=Category.AUTH, code=None)
    for job_id in jobs:
        with database.transaction() as session:
            transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=1, reservation_seconds=2)
    with database.transaction() as session:
        assert lanes.closed_category(session, jobs[0]) is Category.AUTH
        assert lanes.resume(session, "local", by="ops", spread_seconds=0) == 5
    with database.transaction() as session:
        for job_id in jobs:
            factories.claim(session, job_id)


def test_a_lane_never_makes_a_job_come_back_before_its_providers_delay(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        transitions.retry_later(session, claim, category=Category.RATE_LIMITED, delay_seconds=90)
        due = session.execute(select(Delivery.not_before)).scalar_one()
    cool(database, 10)
    with database.transaction() as session:
        transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=1, reservation_seconds=2)
        assert session.execute(select(Delivery.not_before)).scalar_one() >= due


@pytest.mark.race
def test_calls_in_flight_are_limited_over_all_workers(database: Database, account_id: uuid.UUID) -> None:
    call = replace(factories.CALL, limit=2)
    with database.transaction() as session:
        claims = [
            factories.claim(session, factories.submit(session, account_id, f"text {n}".encode()).job_id)
            for n in range(4)
        ]

    def open_one(n: int) -> object:
        with database.transaction() as session:
            return calls.open_call(session, claims[n].job_id, claims[n].generation, call)

    answers = factories.all_at_once([lambda n=n: open_one(n) for n in range(4)])  # type: ignore[misc]
    assert sum(isinstance(answer, uuid.UUID) for answer in answers) == 2
    assert answers.count(Full()) == 2


@pytest.mark.race
def test_control_counting_without_the_lock_lets_too_many_through(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    all_counted = threading.Barrier(4)
    call = replace(factories.CALL, limit=2)
    with database.transaction() as session:
        claims = [
            factories.claim(session, factories.submit(session, account_id, f"text {n}".encode()).job_id)
            for n in range(4)
        ]

    def count_without_lock(session: object, name: str, limit: int) -> Full | None:
        found = session.execute(text("SELECT count(*) FROM provider_calls WHERE outcome = 'open'")).scalar_one()  # type: ignore[attr-defined]
        all_counted.wait(10)
        return Full() if found >= limit else None

    monkeypatch.setattr(lanes, "_full", count_without_lock)

    def open_one(n: int) -> object:
        with database.transaction() as session:
            return calls.open_call(session, claims[n].job_id, claims[n].generation, call)

    answers = factories.all_at_once([lambda n=n: open_one(n) for n in range(4)])  # type: ignore[misc]
    assert sum(isinstance(answer, uuid.UUID) for answer in answers) == 4
