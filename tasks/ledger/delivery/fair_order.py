"""Whose job is next: accounts take turns, so that two hundred files of one person do not hold up another's one.

The queue itself is first in, first out. So only few messages are in it at a time, as many as find a free slot and a few
more, and it is decided here which ones. A job's turn is one more than what its account already has in the works.
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Subquery, case, func, select, union_all
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.delivery import gate as delivery_gate
from tasks.ledger.models import Delivery, Job, Worker
from tasks.ledger.sql_intervals import seconds

SPARE = 4
"""Messages beyond the free slots, so that a slot that becomes free finds one at once."""
MOST_RANKED = 5000
"""With more deliveries than this owed, nobody is told how many come before theirs."""
SEEN_WITHIN_SECONDS = 60.0
"""Slots of a worker that was silent for longer are not counted on."""


def on_its_way() -> ColumnElement[bool]:
    """Whether a delivery was handed over to be run at once, and no claim has met it yet."""
    return (Delivery.dispatches > 0) & (Delivery.not_before <= func.now())


def _waits_for_its_turn(queue: str) -> ColumnElement[bool]:
    there = (Delivery.queue == queue) & (Delivery.dispatches == 0)
    return there & (Delivery.due_at <= func.now()) & (Delivery.not_before <= func.now())


def free_capacity(session: Session, queue: str) -> int:
    """How many more deliveries may be handed over now. None may while an operator has stopped dispatch; where only so
    many jobs may be held at once, more messages than free places would only be refused and sent again."""
    gate = delivery_gate.load(session, queue)
    if gate.dispatch_stopped:
        return 0
    held = delivery_gate.active(session, queue)
    places = max(0, _slots(session, queue) - held) + SPARE
    if gate.at_once is not None:
        places = min(places, gate.at_once - held)
    return max(0, places - session.execute(select(_sent(queue))).scalar_one())


def hold_back(session: Session, queue: str) -> bool:
    """Whether the others are waited for: then what waits for its turn is not late, and nobody is to blame.

    Where there is room and no message at all is on its way, somebody should have handed one over.
    """
    sent: int = session.execute(select(_sent(queue))).scalar_one()
    return sent > 0 or free_capacity(session, queue) <= 0


def needs_no_turn() -> ColumnElement[bool]:
    """Whether a delivery is looked after whatever the room: it was handed over before, or may only run later."""
    return (Delivery.dispatches > 0) | (Delivery.not_before > func.now())


def _slots(session: Session, queue: str) -> int:
    alive = (Worker.left_at.is_(None), Worker.seen_at > func.now() - seconds(SEEN_WITHIN_SECONDS))
    return int(session.execute(select(func.sum(Worker.slots)).where(Worker.queue == queue, *alive)).scalar() or 0)


def _sent(queue: str) -> ScalarSelect[int]:
    return select(func.count()).where(Delivery.queue == queue, on_its_way()).scalar_subquery()


def _in_turn(queue: str) -> Subquery:
    """The deliveries that wait for their turn; `place` counts from 1 in the order in which they will be taken.

    Those of an account that is disabled are not among them.
    """
    in_the_works = union_all(
        select(Job.account_id).where(Job.queue == queue, Job.lease_expires_at.is_not(None)),
        select(Job.account_id).join(Delivery, Delivery.job_id == Job.id).where(Delivery.queue == queue, on_its_way()),
    ).subquery()
    busy = (
        select(in_the_works.c.account_id, func.count().label("jobs")).group_by(in_the_works.c.account_id)
    ).subquery()
    own: ColumnElement[Any] = func.row_number().over(
        partition_by=Job.account_id, order_by=(Job.created_at, Delivery.job_id)
    )
    turns = (
        select(Delivery.job_id, Delivery.not_before, (own + func.coalesce(busy.c.jobs, 0)).label("turn"))
        .join(Job, Job.id == Delivery.job_id)
        .outerjoin(busy, busy.c.account_id == Job.account_id)
        .where(_waits_for_its_turn(queue), ~is_disabled(Job.account_id))
    ).subquery()
    order = (turns.c.turn, turns.c.not_before, turns.c.job_id)
    return select(turns.c.job_id, func.row_number().over(order_by=order).label("place")).subquery()


def next_by_fair_share(session: Session, queue: str, limit: int) -> list[uuid.UUID]:
    """The jobs whose deliveries are to be handed over next, in their order."""
    waiting = _in_turn(queue)
    return list(session.execute(select(waiting.c.job_id).order_by(waiting.c.place).limit(limit)).scalars())


def jobs_before(session: Session, queue: str, job_id: uuid.UUID) -> int | None:
    """How many jobs will be begun before this one, if nobody hands in another; None if it does not wait for its turn,
    or if so many wait that it would take too long to say.

    Those whose messages are in the queue come first, in the order in which they were put there.
    """
    waiting = _in_turn(queue)
    place = select(waiting.c.place).where(waiting.c.job_id == job_id).scalar_subquery()
    put = func.coalesce(Delivery.dispatched_at, func.now())  # one that is just being put there is the last
    mine = select(put).where(Delivery.job_id == job_id, on_its_way()).scalar_subquery()
    earlier = (put < mine) | ((put == mine) & (Delivery.job_id < job_id))
    sent_earlier = select(func.count()).where(Delivery.queue == queue, on_its_way(), earlier).scalar_subquery()
    some = select(Delivery.job_id).where(Delivery.queue == queue).limit(MOST_RANKED + 1).subquery()
    too_many = select(func.count() > MOST_RANKED).select_from(some).scalar_subquery()
    before: int | None = session.execute(
        select(
            case((too_many, None), (place.is_not(None), place - 1 + _sent(queue)), (mine.is_not(None), sent_earlier))
        )
    ).scalar_one()
    return before
