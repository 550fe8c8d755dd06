"""Tests of the fair order: accounts take turns, so many files of one account do not hold up the file of another."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.delivery import fair_order, gate, outbox
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.models import Delivery
from tasks.ledger.reports import current
from tasks.ledger.terms import RenewalTimes
from tests.support import factories


def hand_in(database: Database, count: int, account_id: uuid.UUID | None = None) -> list[uuid.UUID]:
    """Hand in jobs of one account and return their ids in the order of creation."""
    jobs = []
    with database.transaction() as session:
        owner = account_id or factories.make_account(session)
    for n in range(count):
        with database.transaction() as session:
            jobs.append(factories.submit(session, owner, f"text {n}".encode()).job_id)
    return jobs


def slots(database: Database, count: int, name: str = "w") -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, name, queue=factories.QUEUE, slots=count)


def take(database: Database, job_id: uuid.UUID | None = None) -> list[uuid.UUID]:
    """Return the jobs whose deliveries a dispatcher sends in one step."""
    with database.transaction() as session:
        taken = outbox.take_due(session, queue=factories.QUEUE, limit=100, postpone_seconds=60, job_id=job_id)
    for owed in taken:
        with database.transaction() as session:
            outbox.note_dispatched(session, owed.job_id, owed.number)
    return [owed.job_id for owed in taken]


def claim(database: Database, job_id: uuid.UUID) -> Claim:
    with database.transaction() as session:
        return factories.claim(session, job_id, lease_seconds=60)


def finish(database: Database, held: Claim) -> None:
    with database.transaction() as session:
        transitions.succeed(session, held, text="done", facts={})


def before(database: Database, jobs: Sequence[uuid.UUID]) -> list[int | None]:
    with database.transaction() as session:
        return [factories.jobs_before(session, job_id) for job_id in jobs]


def work_off(database: Database, in_queue: list[uuid.UUID]) -> list[uuid.UUID]:
    """Work off the queue with two slots, first in, first out, and return the jobs in the order in which they began."""
    begun: list[uuid.UUID] = []
    held: list[Claim] = []
    while True:
        in_queue += take(database)
        while in_queue and len(held) < 2:
            begun.append(in_queue.pop(0))
            held.append(claim(database, begun[-1]))
        if not held:
            return begun
        finish(database, held.pop(0))


def test_one_job_of_another_is_begun_soon_among_many_of_one(database: Database) -> None:
    slots(database, 2)
    many = hand_in(database, 16)
    in_queue = take(database)
    assert in_queue == many[: 2 + fair_order.PREFETCH], "as many as there are slots for, and a few more, in their order"
    (one,) = hand_in(database, 1)
    begun = work_off(database, in_queue)
    assert len(begun) == 17
    assert begun.index(one) == 2 + fair_order.PREFETCH, "after what was in the queue before it came"
    assert [job for job in begun if job != one] == many


def test_control_without_turns_the_single_job_begins_last(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_age(session: Session, queue: str, limit: int) -> list[uuid.UUID]:
        waits = select(Delivery.job_id).where(Delivery.queue == queue, Delivery.dispatches == 0)
        return list(session.execute(waits.order_by(Delivery.due_at).limit(limit)).scalars())

    slots(database, 2)
    monkeypatch.setattr(fair_order, "next_by_fair_share", by_age)
    hand_in(database, 16)
    in_queue = take(database)
    (one,) = hand_in(database, 1)
    assert work_off(database, in_queue).index(one) == 16


def test_three_accounts_share_evenly_and_held_jobs_count(database: Database) -> None:
    slots(database, 4)
    with database.transaction() as session:
        greedy_one = factories.make_account(session)
    greedy = hand_in(database, 4, greedy_one)
    for job_id in take(database):
        claim(database, job_id)
    with database.transaction() as session:
        more = [factories.submit(session, greedy_one, f"more {n}".encode()).job_id for n in range(6)]
    other, third = hand_in(database, 3), hand_in(database, 3)
    owner = {**dict.fromkeys(greedy + more, "greedy"), **dict.fromkeys(other, "b"), **dict.fromkeys(third, "c")}
    assert [owner[job] for job in take(database)] == ["b", "c", "b", "c"]


def test_the_jobs_before_are_those_that_are_begun_before(database: Database) -> None:
    slots(database, 1)
    many, few = hand_in(database, 8), hand_in(database, 2)
    assert before(database, [*many, *few]) == [0, 2, 4, 5, 6, 7, 8, 9, 1, 3]
    take(database)
    assert before(database, [*many, *few]) == [0, 2, 4, 5, 6, 7, 8, 9, 1, 3], "also while half of them are in the queue"
    claim(database, many[0])
    assert before(database, [many[0], few[0], many[1]]) == [None, 0, 1]
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() + interval '1 hour'"))
    assert before(database, [*many, uuid.uuid4()]) == [None] * 9


def test_with_very_many_deliveries_no_position_is_given(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = hand_in(database, 3)
    monkeypatch.setattr(fair_order, "MAX_RANKED", 2)
    assert before(database, jobs) == [None] * 3
    monkeypatch.setattr(fair_order, "MAX_RANKED", 3)
    assert before(database, jobs) == [0, 1, 2]


def test_the_capacity_is_the_free_slots_of_live_workers_and_a_few_more(database: Database) -> None:
    def room() -> int:
        with database.transaction() as session:
            return fair_order.free_capacity(session, factories.QUEUE)

    assert room() == fair_order.PREFETCH, "before any worker was seen"
    slots(database, 3)
    slots(database, 2, "another")
    assert room() == 5 + fair_order.PREFETCH
    jobs = hand_in(database, 20)
    assert len(take(database)) == 5 + fair_order.PREFETCH and room() == 0
    claim(database, jobs[0])
    assert room() == 0 and take(database) == []
    with database.transaction() as session:
        leases.sign_off(session, "another", forget_silent_seconds=3600)
        session.execute(text("UPDATE workers SET seen_at = now() - interval '5 minutes'"))
        session.execute(text("DELETE FROM deliveries"))
    assert room() == fair_order.PREFETCH, "slots of workers that left or went silent are not counted on"


def test_a_lost_message_is_sent_again_without_free_capacity(database: Database) -> None:
    (first, *_) = hand_in(database, 20)
    assert len(take(database)) == fair_order.PREFETCH
    with database.transaction() as session:
        assert (outbox.seconds_until_next_due(session, factories.QUEUE) or 0) > 30, (
            "those that wait are no reason to hurry"
        )
        session.execute(text("UPDATE deliveries SET due_at = now() WHERE job_id = :job"), {"job": first})
    assert take(database) == [first]


def test_what_the_queue_refuses_is_overdue_however_often_it_is_postponed(database: Database) -> None:
    def overdue() -> int:
        with database.transaction() as session:
            return current.now(
                session, queue=factories.QUEUE, lane="local", alive_seconds=60, renewal=RenewalTimes(2, 5)
            ).overdue

    hand_in(database, 3)
    taken = take(database)
    assert len(taken) == 3 and overdue() == 0
    with database.transaction() as session:  # a full Redis: each is postponed, and none is accepted
        refused = "UPDATE deliveries SET not_before = now() - interval '1 minute', dispatched_at = NULL"
        session.execute(text(refused))
    assert overdue() == 3
    with database.transaction() as session:
        outbox.note_dispatched(session, taken[0], 1)
    assert overdue() == 2


def test_what_waits_for_its_turn_is_not_overdue_and_what_was_handed_over_and_forgotten_is(database: Database) -> None:
    def overdue() -> int:
        with database.transaction() as session:
            return current.now(
                session, queue=factories.QUEUE, lane="local", alive_seconds=60, renewal=RenewalTimes(2, 5)
            ).overdue

    def a_minute_later() -> None:
        with database.transaction() as session:
            session.execute(text("UPDATE deliveries SET due_at = due_at - interval '1 minute'"))

    hand_in(database, 8)
    a_minute_later()
    assert overdue() == 8, "nobody hands anything over"
    assert len(take(database)) == fair_order.PREFETCH
    assert overdue() == 0
    a_minute_later()
    a_minute_later()
    assert overdue() == fair_order.PREFETCH


def test_a_retry_is_scheduled_for_its_time_without_free_capacity(database: Database) -> None:
    hand_in(database, 20)
    take(database)
    (late,) = hand_in(database, 1)
    with database.transaction() as session:
        later = text("UPDATE deliveries SET not_before = now() + interval '1 minute' WHERE job_id = :job")
        session.execute(later, {"job": late})
    assert take(database) == [late]


def test_a_submitted_job_is_sent_at_once_only_in_turn(database: Database) -> None:
    many = hand_in(database, fair_order.PREFETCH + 1)
    assert take(database, many[-1]) == [], "others of the account come before it"
    (one,) = hand_in(database, 1)
    assert take(database, one) == [one]


def test_the_operators_limit_holds_together_with_the_turns(database: Database) -> None:
    slots(database, 9)
    hand_in(database, 20)
    with database.transaction() as session:
        gate.resume(session, factories.QUEUE, by="ops", at_once=3)
    assert len(take(database)) == 3 and take(database) == []
