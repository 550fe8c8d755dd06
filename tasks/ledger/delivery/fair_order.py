"""Decides whose job is sent next: accounts take turns, so that 200 files of one user do not hold up another's one file.

The queue itself is first in, first out. So it is kept short: it holds one message for each free slot and `PREFETCH`
more, and which deliveries get there is decided here. The jobs of an account are numbered in the order of their
creation, starting after those that it has in progress. The lowest number, its turn, is sent first.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    String,
    Subquery,
    and_,
    case,
    false,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.models import Delivery, Job
from tasks.ledger.models.control import Gate
from tasks.ledger.models.workers import Worker
from tasks.ledger.sql_intervals import seconds

PREFETCH = 4
"""Sets the number of messages beyond the free slots, so that a slot that becomes free finds a message at once."""
MAX_RANKED = 5000
"""Limits the positions that are shown: with more deliveries owed, computing a position would take too long."""
SEEN_WITHIN_SECONDS = 60.0
"""Limits the age of a worker's last heartbeat. Slots of workers that were silent for longer are not counted."""


def on_its_way() -> ColumnElement[bool]:
    """Return the SQL condition that a delivery may run now, was sent to the queue, and was not consumed by a claim."""
    # A literal, as in the partial index: the plan of a prepared statement does not know the values of its parameters.
    return (Delivery.dispatches > literal_column("0")) & (Delivery.not_before <= func.now())


def _waits_for_its_turn(queue: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that a delivery is due, may run now, and is not on its way yet (`dispatches` is 0)."""
    not_sent = (Delivery.queue == queue) & (Delivery.dispatches == 0)
    return not_sent & (Delivery.due_at <= func.now()) & (Delivery.not_before <= func.now())


def free_capacity(session: Session, queue: str) -> int | None:
    """Return how many more deliveries may be sent to the queue now. None while an operator has stopped dispatch.

    Where the gate limits the jobs held at once, that limit counts too, since the messages beyond it would only be
    refused by the claim and sent again.
    """
    row: Sequence[Any] = _CAPACITY.execute(session, queue=queue).one()
    stopped, at_once, held_jobs, slots, sent = row
    if stopped:
        return None
    capacity = max(0, slots - held_jobs) + PREFETCH
    if at_once is not None:
        capacity = min(capacity, at_once - held_jobs)
    return int(max(0, capacity - sent))


def hold_back(session: Session, queue: str) -> bool:
    """Return True if deliveries wait for other jobs, so that one that waits for its turn is not overdue.

    Returns False if there is capacity and no message is on its way: then the dispatcher should have sent one.
    """
    sent: int = session.execute(select(_sent(queue))).scalar_one()
    return sent > 0 or not free_capacity(session, queue)


def needs_no_turn() -> ColumnElement[bool]:
    """Return the SQL condition that a delivery is taken whatever the free capacity is.

    It was sent before, and is sent again if it got lost; or it may only run later, and is scheduled for its time.
    """
    return (Delivery.dispatches > 0) | (Delivery.not_before > func.now())


def _is_alive(queue: str | ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    seen_lately = Worker.seen_at > func.now() - seconds(SEEN_WITHIN_SECONDS)
    return (Worker.queue == queue, Worker.left_at.is_(None), seen_lately)


def _sent(queue: str | ColumnElement[str]) -> ScalarSelect[int]:
    """Return a subquery that counts the deliveries with a message in the queue."""
    return select(func.count()).where(Delivery.queue == queue, on_its_way()).correlate(None).scalar_subquery()


def _capacity_query() -> Select[*tuple[Any, ...]]:
    queue = parameter("queue", String())
    slots = select(func.coalesce(func.sum(Worker.slots), 0)).where(*_is_alive(queue))
    held_jobs = select(func.count()).where(Job.queue == queue, Job.lease_expires_at.is_not(None))
    gate = select(Gate.dispatch_stopped, Gate.at_once).where(Gate.queue == queue).subquery()
    always = select(true().label("always")).subquery()
    return (
        select(
            func.coalesce(gate.c.dispatch_stopped, false()),
            gate.c.at_once,
            held_jobs.scalar_subquery(),
            slots.scalar_subquery(),
            _sent(queue),
        )
        .select_from(always)
        .outerjoin(gate, always.c.always)
    )


_CAPACITY = CompiledStatement(_capacity_query())


def _in_turn(queue: str | ColumnElement[str]) -> Subquery:
    """Return the deliveries that wait for their turn: `job_id`, and `position` from 1 in the order of sending.

    Deliveries of disabled accounts are not among them.
    """
    # In progress are the jobs that a worker holds, and those with a message in the queue.
    in_progress = union_all(
        select(Job.account_id).where(Job.queue == queue, Job.lease_expires_at.is_not(None)),
        select(Job.account_id).join(Delivery, Delivery.job_id == Job.id).where(Delivery.queue == queue, on_its_way()),
    ).subquery()
    busy = (select(in_progress.c.account_id, func.count().label("jobs")).group_by(in_progress.c.account_id)).subquery()
    number_in_account: ColumnElement[Any] = func.row_number().over(
        partition_by=Job.account_id, order_by=(Job.created_at, Delivery.job_id)
    )
    turns = (
        select(Delivery.job_id, Delivery.not_before, (number_in_account + func.coalesce(busy.c.jobs, 0)).label("turn"))
        .join(Job, Job.id == Delivery.job_id)
        .outerjoin(busy, busy.c.account_id == Job.account_id)
        .where(_waits_for_its_turn(queue), ~is_disabled(Job.account_id))
    ).subquery()
    order = (turns.c.turn, turns.c.not_before, turns.c.job_id)
    return select(turns.c.job_id, func.row_number().over(order_by=order).label("position")).subquery()


def _next_query() -> Select[*tuple[Any, ...]]:
    waiting = _in_turn(parameter("queue", String()))
    return select(waiting.c.job_id).order_by(waiting.c.position).limit(parameter("most", Integer()))


_NEXT = CompiledStatement(_next_query())


def next_by_fair_share(session: Session, queue: str, limit: int) -> list[uuid.UUID]:
    """Return the jobs whose deliveries are to be sent next, in that order, at most `limit`."""
    if limit <= 0:
        return []
    return list(_NEXT.execute(session, queue=queue, most=limit).scalars())


def jobs_before(queue: ColumnElement[str], job_id: ColumnElement[uuid.UUID]) -> ColumnElement[int | None]:
    """Return the SQL expression of how many jobs will begin before this one if no other is submitted.

    Jobs whose messages are in the queue come first, in the order in which they were sent. It is NULL if the job does
    not wait for its turn, or if more than `MAX_RANKED` deliveries are owed.
    """
    waiting = _in_turn(queue)
    in_turn = select(waiting.c.position - 1 + _sent(queue)).where(waiting.c.job_id == job_id)
    sent_at = func.coalesce(Delivery.dispatched_at, func.now())  # a message that is being sent right now is the last
    own = select(sent_at.label("sent_at")).where(Delivery.job_id == job_id, on_its_way()).subquery()
    earlier = (sent_at < own.c.sent_at) | ((sent_at == own.c.sent_at) & (Delivery.job_id < job_id))
    sent_earlier = (
        select(func.count(Delivery.job_id))
        .select_from(own)
        .outerjoin(Delivery, and_(Delivery.queue == queue, on_its_way(), earlier))
        .group_by(own.c.sent_at)
    )
    counted = select(Delivery.job_id).where(Delivery.queue == queue).limit(MAX_RANKED + 1).subquery()
    few = select(func.count() <= MAX_RANKED).select_from(counted).scalar_subquery()
    before = func.coalesce(in_turn.correlate(None).scalar_subquery(), sent_earlier.correlate(None).scalar_subquery())
    return case((few, before))


def some_are_on_their_way(queue: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that the queue holds a message that no claim has consumed."""
    return select(Delivery.job_id).where(Delivery.queue == queue, on_its_way()).correlate(None).exists()


def no_worker_is_there(queue: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that no worker of the queue was seen lately, so that nobody could take a job."""
    return ~select(Worker.name).where(*_is_alive(queue)).correlate(None).exists()
