"""The outbox: the deliveries that are owed. Postponed, then sent, then deleted by the claim.

`take_due` moves `due_at` forward before anything is sent, so a dispatcher that dies between these two steps causes a
late delivery and not a lost one. Only a claim, or the end of the job, deletes the row: a row that is still there proves
that the delivery has not arrived.
The idea is Sentry's: https://github.com/getsentry/sentry/blob/master/src/sentry/hybridcloud/models/outbox.py
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_held
from tasks.ledger.delivery import fair_order, gate
from tasks.ledger.models import Delivery, Job
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import WAITING


@dataclass(frozen=True)
class OwedDelivery:
    """A message to send to the queue.

    `earlier` is the number under which it was sent before, None if this is the first time. `not_before` is in the past
    if it may run at once. `seconds_to_wait` is the time until `not_before` by the database's clock, 0 if it has passed.
    """

    job_id: uuid.UUID
    number: int
    earlier: int | None
    not_before: datetime
    seconds_to_wait: float


def owe(session: Session, job_id: uuid.UUID, queue: str, number: int, *, not_before: datetime | None = None) -> int:
    """Owe the job a delivery under this number, instead of any that is owed already, and return the number.

    `number` is the job's newest delivery, which the caller has counted in the same transaction.
    """
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
    return number


def consume(session: Session, job_id: uuid.UUID) -> bool:
    """Delete the delivery that is owed to the job. Returns False if none was."""
    return bool(session.execute(delete(Delivery).where(Delivery.job_id == job_id).returning(Delivery.job_id)).all())


def take_due(
    session: Session, *, queue: str, limit: int, postpone_seconds: float, job_id: uuid.UUID | None = None
) -> list[OwedDelivery]:
    """Take up to `limit` deliveries that are due, postpone each, and return them in the order of sending.

    Two kinds are taken. Deliveries that may run now and are not on their way yet take turns, see `fair_order`, and as
    many are taken as there is free capacity. Whatever the capacity, those that were sent before are sent again, and
    those that may only run later are scheduled for their time. `job_id` restricts this to the delivery of one job,
    under the same rules.

    Rows that another dispatcher has locked are skipped, so any number of dispatchers may run. While an operator has
    stopped dispatch, nothing is taken and nothing is postponed.
    """
    capacity = fair_order.free_capacity(session, queue)
    if capacity is None:
        return []
    in_turn = fair_order.next_by_fair_share(session, queue, min(limit, capacity))
    due = select(Delivery.job_id).where(Delivery.queue == queue, Delivery.due_at <= func.now())
    if job_id is not None:
        due = due.where(Delivery.job_id == job_id)
    first_time = due.where(Delivery.job_id.in_(in_turn), Delivery.dispatches == 0).with_for_update(skip_locked=True)
    without_turn = (
        due.where(fair_order.needs_no_turn())
        .order_by(Delivery.due_at)
        .limit(limit - len(in_turn))
        .with_for_update(skip_locked=True)
    )
    taken = _postpone(session, first_time, without_turn, postpone_seconds)
    position = {job: index for index, job in enumerate(in_turn)}
    return sorted(taken, key=lambda owed: position.get(owed.job_id, len(position)))


def _postpone(
    session: Session, first_time: Select[uuid.UUID], without_turn: Select[uuid.UUID], postpone_seconds: float
) -> list[OwedDelivery]:
    """Postpone the deliveries that the two queries select and lock, and return them.

    The next `due_at` of a delivery that may run now lies `postpone_seconds` ahead, and twice as far for each earlier
    sending that is counted in `dispatches`, up to sixteen times. A delivery that may only run later is due again
    exactly when it may run, and this sending is not counted.
    """
    runs_later = Delivery.not_before > func.now()
    backoff = seconds(postpone_seconds * func.power(2, func.least(Delivery.dispatches, 4)))
    seconds_to_wait = func.greatest(0, func.extract("epoch", Delivery.not_before - func.now()))
    rows = session.execute(
        update(Delivery)
        .where(
            or_(
                Delivery.job_id.in_(first_time.scalar_subquery()),
                Delivery.job_id.in_(without_turn.scalar_subquery()),
            )
        )
        .values(
            due_at=case((runs_later, Delivery.not_before), else_=func.now() + backoff),
            dispatches=case((runs_later, Delivery.dispatches), else_=Delivery.dispatches + 1),
        )
        .returning(Delivery.job_id, Delivery.number, Delivery.dispatched_at, Delivery.not_before, seconds_to_wait)
    ).all()
    return [
        OwedDelivery(
            job_id=job_id,
            number=number,
            earlier=None if dispatched_at is None else number,
            not_before=not_before,
            seconds_to_wait=float(wait),
        )
        for job_id, number, dispatched_at, not_before, wait in rows
    ]


def renumber(session: Session, job_id: uuid.UUID, number: int) -> int | None:
    """Give the delivery that is owed under `number` a new number, since the queue refuses the same number twice.

    Returns the new number, or None if nothing is owed under the old one.
    """
    # Lock order: the job before its delivery.
    owed = select(Delivery.job_id).where(Delivery.job_id == Job.id, Delivery.number == number).exists()
    new_number = session.execute(
        update(Job).where(Job.id == job_id, owed).values(deliveries=Job.deliveries + 1).returning(Job.deliveries)
    ).scalar_one_or_none()
    if new_number is None:
        return None
    session.execute(update(Delivery).where(Delivery.job_id == job_id).values(number=new_number, dispatched_at=None))
    return new_number


def note_dispatched(session: Session, job_id: uuid.UUID, number: int) -> None:
    """Record that the queue accepted this number. Does nothing if a claim has consumed the delivery in the meantime."""
    session.execute(
        update(Delivery).where(Delivery.job_id == job_id, Delivery.number == number).values(dispatched_at=func.now())
    )


def is_due(session: Session, job_id: uuid.UUID) -> bool:
    """Return True if a delivery is owed to the job and may be claimed now."""
    return bool(
        session.execute(select(Delivery.not_before <= func.now()).where(Delivery.job_id == job_id)).scalar_one_or_none()
    )


def bring_forward(session: Session, job_id: uuid.UUID) -> None:
    """Reschedule a delivery whose message arrived too early: send it again exactly when it may run, and not later."""
    session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id, Delivery.not_before > func.now())
        .values(due_at=Delivery.not_before, dispatches=0)
    )


def reschedule(session: Session, job_id: uuid.UUID) -> None:
    """Reschedule a delivery whose message arrived but was refused: it is due again now, or as soon as it may run."""
    session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id)
        .values(due_at=func.greatest(Delivery.not_before, func.now()), dispatches=0)
    )


def bring_all_forward(session: Session, queue: str) -> int:
    """Make all deliveries that were sent due again, since the queue has lost its messages, and return their number."""
    return len(
        session.execute(
            update(Delivery)
            .where(Delivery.queue == queue, Delivery.dispatched_at.is_not(None), Delivery.due_at > func.now())
            .values(due_at=func.now(), dispatches=0)
            .returning(Delivery.job_id)
        ).all()
    )


def seconds_until_next_due(session: Session, queue: str) -> float | None:
    """Return the seconds until the next delivery is due; 0 if it is due now.

    A delivery that waits for its turn counts only while there is free capacity and its account is not disabled. Returns
    None if none is owed, or while an operator has stopped dispatch.
    """
    capacity = fair_order.free_capacity(session, queue)
    if capacity is None:
        return None
    due = select(func.extract("epoch", func.min(Delivery.due_at) - func.clock_timestamp()))
    due = due.where(Delivery.queue == queue)
    if capacity == 0:
        due = due.where(fair_order.needs_no_turn())
    else:
        due = due.where(or_(fair_order.needs_no_turn(), ~is_held()))
    wait = session.execute(due).scalar()
    return None if wait is None else max(0.0, float(wait))


def oldest_overdue_seconds(session: Session, queue: str) -> float:
    """Return for how many seconds the oldest delivery has been claimable without a claim; 0 if there is none.

    Also 0 while an operator has paused the work, and without the deliveries of disabled accounts: these wait for an
    operator and are not late.
    """
    if gate.load(session, queue).is_paused:
        return 0.0
    age = session.execute(
        select(func.extract("epoch", func.now() - func.min(Delivery.not_before))).where(
            Delivery.queue == queue, ~is_held()
        )
    ).scalar()
    return max(0.0, float(age or 0))


def owe_waiting(session: Session, job_id: uuid.UUID) -> int | None:
    """Owe a waiting job the delivery that it lacks, and return the number.

    No code path leaves a job without a delivery; a row deleted by hand does. Returns None if the job is held or
    finished, or if a delivery is owed already.
    """
    # The job is locked first, and its delivery is read in a second statement. A join would show the delivery as it was
    # before the wait for the lock, and several concurrent sweeps would each owe a delivery.
    waiting = session.execute(
        select(Job.next_attempt_at).where(Job.id == job_id, Job.state.in_(list(WAITING))).with_for_update()
    ).one_or_none()
    if waiting is None or session.get(Delivery, job_id, populate_existing=True) is not None:
        return None
    counted = update(Job).where(Job.id == job_id).values(deliveries=Job.deliveries + 1)
    queue, number = session.execute(counted.returning(Job.queue, Job.deliveries)).one()
    return owe(session, job_id, queue, number, not_before=waiting[0])
