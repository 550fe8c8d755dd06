"""Deliveries that are owed. Postpone, deliver, settle on claim: proof of failure by remaining.

`take_due` moves `due_at` forward before anything is sent, so a dispatcher that dies between its two steps
delivers again later instead of never. A row goes away only when a claim (or the job's end) deletes it.
The idea is Sentry's: https://github.com/getsentry/sentry/blob/master/src/sentry/hybridcloud/models/outbox.py
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_held
from tasks.ledger.delivery import fair_order, gate
from tasks.ledger.models import Delivery, Job
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import WAITING


@dataclass(frozen=True)
class OwedDelivery:
    """One message to hand to the queue.

    `earlier` is the number under which it was handed over before, None at the first time. `not_before` lies in the
    past when it may run at once; `seconds_to_wait` is the rest of the wait by the database's clock, 0 if none.
    """

    job_id: uuid.UUID
    number: int
    earlier: int | None
    not_before: datetime
    seconds_to_wait: float


def owe(session: Session, job_id: uuid.UUID, *, not_before: datetime | None = None) -> int:
    """Owe the job a new delivery, under a new number, and give that number. Replaces one already owed."""
    number, queue = session.execute(
        update(Job).where(Job.id == job_id).values(deliveries=Job.deliveries + 1).returning(Job.deliveries, Job.queue)
    ).one()
    values = {
        "queue": queue,
        "number": number,
        "due_at": func.now(),
        "not_before": func.now() if not_before is None else not_before,
        "dispatched_at": None,
        "dispatches": 0,
        "lane": None,
    }
    statement = insert(Delivery).values(job_id=job_id, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[Delivery.job_id], set_=values))
    return int(number)


def consume(session: Session, job_id: uuid.UUID) -> bool:
    """Nothing is owed to the job any more. False if nothing was."""
    return bool(session.execute(delete(Delivery).where(Delivery.job_id == job_id).returning(Delivery.job_id)).all())


def take_due(
    session: Session, *, queue: str, limit: int, postpone_seconds: float, job_id: uuid.UUID | None = None
) -> list[OwedDelivery]:
    """Take the deliveries whose time has come, and postpone each before it is sent.

    Those that may run at once take turns, see `turns`, and only as many are taken as there is room for. Those that were
    handed over before are looked after, and those that may run later are put up for their time, whatever the room.
    The postponement doubles with each hand-over, to sixteen times `postpone_seconds`; a delivery that may not run yet
    is due again at the very moment it may. Rows that another dispatcher holds are skipped, so any number may run.
    Where an operator has stopped dispatch, nothing is taken and nothing postponed.
    """
    if gate.load(session, queue).dispatch_stopped:
        return []
    turn = fair_order.next_by_fair_share(session, queue, min(limit, fair_order.free_capacity(session, queue)))
    due = select(Delivery.job_id).where(Delivery.queue == queue, Delivery.due_at <= func.now())
    if job_id is not None:
        due = due.where(Delivery.job_id == job_id)
    fresh = due.where(Delivery.job_id.in_(turn), Delivery.dispatches == 0).with_for_update(skip_locked=True)
    others = due.where(fair_order.needs_no_turn()).order_by(Delivery.due_at).limit(limit - len(turn))
    others = others.with_for_update(skip_locked=True)
    backoff = seconds(postpone_seconds * func.power(2, func.least(Delivery.dispatches, 4)))
    rows = session.execute(
        update(Delivery)
        .where(or_(Delivery.job_id.in_(fresh.scalar_subquery()), Delivery.job_id.in_(others.scalar_subquery())))
        .values(
            due_at=case((Delivery.not_before > func.now(), Delivery.not_before), else_=func.now() + backoff),
            dispatches=case((Delivery.not_before > func.now(), Delivery.dispatches), else_=Delivery.dispatches + 1),
        )
        .returning(
            Delivery.job_id,
            Delivery.number,
            Delivery.dispatched_at,
            Delivery.not_before,
            func.greatest(0, func.extract("epoch", Delivery.not_before - func.now())),
        )
    ).all()
    place = {job: number for number, job in enumerate(turn)}
    taken = [
        OwedDelivery(row[0], row[1], row[1] if row[2] is not None else None, row[3], float(row[4])) for row in rows
    ]
    return sorted(taken, key=lambda owed: place.get(owed.job_id, len(place)))


def renumber(session: Session, job_id: uuid.UUID, number: int) -> int | None:
    """Give a delivery that is owed under `number` a new one, since the queue refuses a number twice.

    None if it is no longer owed under that number.
    """
    owed = session.execute(
        select(Delivery.number).where(Delivery.job_id == job_id, Delivery.number == number).with_for_update()
    ).scalar_one_or_none()
    if owed is None:
        return None
    fresh = session.execute(
        update(Job).where(Job.id == job_id).values(deliveries=Job.deliveries + 1).returning(Job.deliveries)
    ).scalar_one()
    session.execute(update(Delivery).where(Delivery.job_id == job_id).values(number=fresh, dispatched_at=None))
    return fresh


def note_dispatched(session: Session, job_id: uuid.UUID, number: int) -> None:
    """Remember that the queue took this number. Where a claim has settled it meanwhile, there is nothing to note."""
    session.execute(
        update(Delivery).where(Delivery.job_id == job_id, Delivery.number == number).values(dispatched_at=func.now())
    )


def is_due(session: Session, job_id: uuid.UUID) -> bool:
    """Whether a delivery is owed to the job that may be claimed now."""
    return bool(
        session.execute(select(Delivery.not_before <= func.now()).where(Delivery.job_id == job_id)).scalar_one_or_none()
    )


def bring_forward(session: Session, job_id: uuid.UUID) -> None:
    """A message arrived before its time: hand it over again exactly when it may run, not after the postponement."""
    session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id, Delivery.not_before > func.now())
        .values(due_at=Delivery.not_before, dispatches=0)
    )


def hand_over_again(session: Session, job_id: uuid.UUID) -> None:
    """A message arrived where it could not be worked on: the delivery is due as soon as it may run, for others."""
    session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id)
        .values(due_at=func.greatest(Delivery.not_before, func.now()), dispatches=0)
    )


def bring_all_forward(session: Session, queue: str) -> int:
    """The queue has forgotten everything: every delivery it was given becomes due again. How many there were."""
    return len(
        session.execute(
            update(Delivery)
            .where(Delivery.queue == queue, Delivery.dispatched_at.is_not(None), Delivery.due_at > func.now())
            .values(due_at=func.now(), dispatches=0)
            .returning(Delivery.job_id)
        ).all()
    )


def seconds_until_next_due(session: Session, queue: str) -> float | None:
    """How long until the next delivery is due; 0 if one is due now, None if none is owed or none may be handed over.

    Those that wait for their turn are due only while there is room, and while their account is not disabled.
    """
    if gate.load(session, queue).dispatch_stopped:
        return None
    due = select(func.extract("epoch", func.min(Delivery.due_at) - func.clock_timestamp()))
    due = due.where(Delivery.queue == queue)
    if fair_order.free_capacity(session, queue) <= 0:
        due = due.where(fair_order.needs_no_turn())
    else:
        due = due.where(or_(fair_order.needs_no_turn(), ~is_held()))
    wait = session.execute(due).scalar()
    return None if wait is None else max(0.0, float(wait))


def oldest_overdue_seconds(session: Session, queue: str) -> float:
    """How long the oldest owed delivery has been allowed to run without being claimed; 0 if none waits.

    Also 0 while an operator has paused the work: then nothing is late. What a disabled account waits for is not late.
    """
    if gate.load(session, queue).shut:
        return 0.0
    age = session.execute(
        select(func.extract("epoch", func.now() - func.min(Delivery.not_before))).where(
            Delivery.queue == queue, ~is_held()
        )
    ).scalar()
    return max(0.0, float(age or 0))


def owe_waiting(session: Session, job_id: uuid.UUID) -> int | None:
    """Owe a waiting job the delivery it lacks, and give its number. None if it is held, finished, or owed one.

    Nothing here leaves a job like that; a row deleted by hand does.
    """
    # The job first, and the look at its delivery in a statement of its own: a join would show the delivery as it was
    # before the wait for the lock, and several sweeps would each owe one.
    waiting = session.execute(
        select(Job.next_attempt_at).where(Job.id == job_id, Job.state.in_(list(WAITING))).with_for_update()
    ).one_or_none()
    if waiting is None or session.get(Delivery, job_id, populate_existing=True) is not None:
        return None
    return owe(session, job_id, not_before=waiting[0])
