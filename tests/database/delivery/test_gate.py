"""Tests of the gate: stopping the work loses nothing and counts no attempt, and no attempt begins after a drain."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.delivery import gate, outbox
from tasks.ledger.errors import Category
from tasks.ledger.history import audit_log
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models import Delivery
from tasks.ledger.reports import job_views
from tasks.ledger.states import Event, State
from tasks.maintenance.reconciler import Reconciler
from tasks.settings import Settings
from tests.support import factories


def jobs(database: Database, account_id: uuid.UUID, count: int) -> list[uuid.UUID]:
    with database.transaction() as session:
        return [factories.submit(session, account_id, f"text {n}".encode()).job_id for n in range(count)]


def claim(database: Database, job_id: uuid.UUID) -> Claim | Refused:
    with database.transaction() as session:
        return transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=60, reservation_seconds=90)


def due(database: Database, limit: int = 100) -> list[uuid.UUID]:
    with database.transaction() as session:
        taken = outbox.take_due(session, queue=factories.QUEUE, limit=limit, postpone_seconds=5)
        for owed in taken:
            outbox.note_dispatched(session, owed.job_id, owed.number)
        return [owed.job_id for owed in taken]


def drain(database: Database) -> int:
    with database.transaction() as session:
        return gate.drain(session, factories.QUEUE, by="ops", note="a deploy")


def resume(database: Database, at_once: int | None = None) -> gate.GateState | None:
    with database.transaction() as session:
        return gate.resume(session, factories.QUEUE, by="ops", at_once=at_once)


def delivery(session: Session) -> Any:
    return session.execute(text("SELECT number, due_at, not_before, dispatched_at, dispatches FROM deliveries")).one()


def test_a_pause_hands_nothing_over_postpones_nothing_and_is_no_alarm(
    database: Database, account_id: uuid.UUID
) -> None:
    (job_id,) = jobs(database, account_id, 1)
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '99 seconds'"))
        assert outbox.oldest_overdue_seconds(session, factories.QUEUE) > 90
        before = delivery(session)
        assert gate.pause(session, factories.QUEUE, by="ops", note="a deploy").mode == "paused"
    assert due(database) == []
    with database.transaction() as session:
        assert delivery(session) == before
        assert outbox.seconds_until_next_due(session, factories.QUEUE) is None
        assert outbox.oldest_overdue_seconds(session, factories.QUEUE) == 0
        assert job_views.orphans(session, grace_seconds=0) == 0
        assert gate.load(session, "another").mode == "open"
    assert resume(database) is not None
    assert due(database) == [job_id]


def test_a_pause_lets_what_is_in_the_queue_begin_and_a_drain_does_not(
    database: Database, account_id: uuid.UUID
) -> None:
    first, second = jobs(database, account_id, 2)
    assert len(due(database)) == 2
    with database.transaction() as session:
        gate.pause(session, factories.QUEUE, by="ops")
    assert isinstance(claim(database, first), Claim)
    assert drain(database) == 1
    with database.transaction() as session:
        assert gate.pause(session, factories.QUEUE, by="ops").mode == "draining", "a pause does not undo a drain"
    for _ in range(3):
        assert claim(database, second) == Refused(gate.STOPPED)
    with database.transaction() as session:
        owed = session.execute(select(Delivery)).scalar_one()
        assert (owed.job_id, owed.number, owed.dispatches) == (second, 1, 0)
        view = job_views.any_job(session, second)
        assert view is not None and (view.state, view.attempt, view.revision) == (State.QUEUED, 1, 1)
        assert factories.count(session, "attempts") == 1
        assert job_views.orphans(session, grace_seconds=0) == 0
    assert due(database) == []
    before = resume(database)
    assert before is not None and before.mode == "draining"
    assert due(database) == [second], "it goes on at once, not after a postponement"
    assert isinstance(claim(database, second), Claim)


def test_a_refused_message_of_a_later_time_keeps_its_time(database: Database, account_id: uuid.UUID) -> None:
    (job_id,) = jobs(database, account_id, 1)
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() + interval '60 seconds'"))
    drain(database)
    assert claim(database, job_id) == Refused(gate.STOPPED)
    with database.transaction() as session:
        owed = delivery(session)
        assert owed.due_at == owed.not_before


def test_with_a_limit_only_so_many_are_held_and_only_so_many_messages_are_sent(
    database: Database, account_id: uuid.UUID
) -> None:
    all_jobs = jobs(database, account_id, 5)
    assert resume(database, at_once=2) is not None
    assert resume(database, at_once=2) is None, "nothing new was decided"
    first, second = due(database)
    assert due(database) == [], "two are on their way, and there is no place for more"
    claims = [claim(database, first), claim(database, second)]
    assert due(database) == []
    third = next(job for job in all_jobs if job not in (first, second))
    assert claim(database, third) == Refused(gate.FULL)
    assert isinstance(claims[0], Claim)
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) is None
        transitions.succeed(session, claims[0], text="done", facts={})
    (next_one,) = due(database)
    assert isinstance(claim(database, next_one), Claim)
    assert resume(database) is not None
    assert len(due(database)) == 2


@pytest.mark.race
def test_the_last_slot_is_taken_once(database: Database, account_id: uuid.UUID) -> None:
    all_jobs = jobs(database, account_id, 4)
    resume(database, at_once=2)
    answers = factories.all_at_once([lambda job=job: claim(database, job) for job in all_jobs])  # type: ignore[misc]
    assert sum(isinstance(answer, Claim) for answer in answers) == 2
    assert answers.count(Refused(gate.FULL)) == 2


@pytest.mark.race
def test_control_counting_without_its_lock_lets_too_many_through(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_counted = threading.Barrier(4)
    count = gate.active
    all_jobs = jobs(database, account_id, 4)
    resume(database, at_once=2)

    def count_together(session: Session, queue: str) -> int:
        found = count(session, queue)
        all_counted.wait(10)
        return found

    monkeypatch.setattr(gate, "active", count_together)
    monkeypatch.setattr(gate, "_lock_count", lambda session, queue: None)
    answers = factories.all_at_once([lambda job=job: claim(database, job) for job in all_jobs])  # type: ignore[misc]
    assert sum(isinstance(answer, Claim) for answer in answers) == 4


class InTheMiddle:
    """The two events of a claim that has passed the gate but has not changed the job yet."""

    def __init__(self) -> None:
        self.passed, self.go_on = threading.Event(), threading.Event()


@contextmanager
def a_claim_in_the_middle(
    database: Database, job_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[InTheMiddle, Any]]:
    middle, change_state = InTheMiddle(), transitions.change_state

    def slow(session: Session, event: Event, *arguments: Any, **more: Any) -> Any:
        if event is Event.CLAIM:
            middle.passed.set()
            assert middle.go_on.wait(30)
        return change_state(session, event, *arguments, **more)

    monkeypatch.setattr(transitions, "change_state", slow)
    with ThreadPoolExecutor(2) as threads:
        claimed = threads.submit(claim, database, job_id)
        assert middle.passed.wait(30)
        yield middle, (threads, claimed)
        middle.go_on.set()


def claim_lock_is_awaited(database: Database) -> bool:
    waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.transaction() as session:
        return factories.count(session, waiting) > 0


@pytest.mark.race
def test_a_drain_counts_the_claim_that_is_just_being_given(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = jobs(database, account_id, 2)
    with a_claim_in_the_middle(database, first, monkeypatch) as (middle, (threads, claimed)):
        drained = threads.submit(drain, database)
        factories.wait_until(lambda: claim_lock_is_awaited(database), what="the drain to wait for the claim")
        assert not drained.done()
        middle.go_on.set()
        assert isinstance(claimed.result(30), Claim)
        assert drained.result(30) == 1
    assert claim(database, second) == Refused(gate.STOPPED)


@pytest.mark.race
def test_control_without_the_lock_a_claim_is_given_after_the_drain_counted_none(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = jobs(database, account_id, 1)
    monkeypatch.setattr(gate, "_lock", lambda session, queue, *, shared: None)
    with a_claim_in_the_middle(database, job_id, monkeypatch) as (middle, (_, claimed)):
        assert drain(database) == 0
        middle.go_on.set()
        assert isinstance(claimed.result(30), Claim)


def test_a_job_whose_deadline_passes_in_a_pause_fails_with_that_cause(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    (job_id,) = jobs(database, account_id, 1)
    drain(database)
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET deadline_at = now()"))
    assert Reconciler(database.transaction, settings, lambda: None).step() == 1
    with database.transaction() as session:
        view = job_views.any_job(session, job_id)
        assert view is not None
        assert (view.state, view.error_category, view.error_code) == (State.FAILED, Category.DEADLINE, "paused")


def test_what_was_decided_is_written_down_and_stays(database: Database) -> None:
    with database.transaction() as session:
        gate.pause(session, factories.QUEUE, by="ada@example.org", note="the AI service is being changed")
        gate.drain(session, factories.QUEUE, by="ada@example.org")
        gate.resume(session, factories.QUEUE, by="bob@example.org", at_once=3)
        gate.pause(session, "another", by="eve@example.org")
    with database.transaction() as session:
        found = audit_log.newest(session, factories.QUEUE, limit=10)
        assert [(one.what, one.by, one.note, one.facts) for one in found] == [
            ("resume", "bob@example.org", None, {"before": "draining", "at_once": 3}),
            ("drain", "ada@example.org", None, {"before": "paused", "active": 0}),
            ("pause", "ada@example.org", "the AI service is being changed", {"before": "open"}),
        ]
        assert [one.what for one in audit_log.newest(session, factories.QUEUE, limit=10, before=found[1].id)] == [
            "pause"
        ]
    for forgery in ("UPDATE decisions SET by = 'nobody'", "DELETE FROM decisions"):
        with pytest.raises(DBAPIError, match="append only"), database.transaction() as session:
            session.execute(text(forgery))
