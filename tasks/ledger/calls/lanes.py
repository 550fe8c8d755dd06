"""Lanes: one circuit breaker per provider, which is open, cooling down until a time, or stopped by a lasting failure.

A stopped lane stays closed until an operator opens it. When the provider is down, one probe call finds out, not one
call per job. Before each call the worker asks the lane, in the transaction that inserts the call. This locks the lane's
row, so that a single job probes after a cool-down. The calls in flight are counted under an advisory lock, so that
their limit holds over all workers.
Lock order: the lane, then the jobs that wait for it, then their deliveries. `ask` is called with a job locked, but that
job is running and so does not wait for a lane.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, func, literal_column, select, text, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger import sql_intervals
from tasks.ledger.errors import Category
from tasks.ledger.models import Delivery, Job, Lane, ProviderCall
from tasks.ledger.states import LaneState, State

PROBE_WAIT_SECONDS = 2.0  # while a probe is out, the other jobs ask again after at most this
FIRST_COOLING_SECONDS = 2.0  # where the provider asks for no time; doubles with each cool-down in a row
MAX_COOLING_SECONDS = 60.0
LONG_COOLING_SECONDS = 600.0  # an operator is told of a longer wait that the provider asked for
OPEN_FIELDS = {
    "state": LaneState.OPEN,
    "until": None,
    "probing": False,
    "strikes": 0,
    "category": None,
    "code": None,
}


@dataclass(frozen=True)
class Closed:
    """The answer that no call is allowed now. `seconds` is the wait until the next one; None: an operator must act."""

    state: LaneState
    seconds: float | None
    category: Category | None


@dataclass(frozen=True)
class Full:
    """The answer that the lane is open, but has as many calls in flight as its limit allows."""


def ask(session: Session, name: str, *, limit: int, probe_seconds: float) -> Closed | Full | None:
    """Check if one more call may be made now. Returns None if so. Locks the lane's row until the transaction ends.

    After a cool-down the first call is the probe. For all others the lane stays closed until the probe has a response,
    or for `probe_seconds` if none comes.
    """
    lane = _lock_lane(session, name)
    if lane is None:
        return _full(session, name, limit)
    closed = _closed(session, lane)
    if closed is not None:
        return closed
    if lane.state == LaneState.COOLING:
        session.execute(
            update(Lane)
            .where(Lane.name == name)
            .values(until=func.now() + sql_intervals.seconds(probe_seconds), probing=True)
        )
        return None
    return _full(session, name, limit)


def check(session: Session, name: str) -> Closed | None:
    """Return how the lane is closed, or None if it is open. Takes no lock: for a check before the work begins."""
    lane = session.execute(select(Lane).where(Lane.name == name)).scalar_one_or_none()
    return None if lane is None else _closed(session, lane)


def check_and_lock(session: Session, name: str) -> Closed | None:
    """Return how the lane is closed, or None if it is open. Locks its row FOR SHARE until the transaction ends.

    Call it before a job waits for the lane with `wait_for`. Opening the lane releases the jobs that wait for it, but
    does not see a wait that is not committed yet; that job would go on waiting for an open lane. With this lock the
    opener waits until the wait is committed. Call it before the job is locked: openers lock the lane, then the jobs.
    """
    lane = session.execute(
        select(Lane).where(Lane.name == name).with_for_update(read=True).execution_options(populate_existing=True)
    ).scalar_one_or_none()
    return None if lane is None else _closed(session, lane)


def cool(session: Session, name: str, *, seconds: float | None, category: Category, code: str | None) -> float:
    """Close the lane for a cool-down, and return the seconds until its end.

    `seconds` is the time that the provider asked for. If None, the time doubles with each cool-down in a row, up to
    `MAX_COOLING_SECONDS`. A longer cool-down is not shortened, and a stopped lane stays stopped (0 is returned then).
    """
    session.execute(insert(Lane).values(name=name, state=LaneState.OPEN).on_conflict_do_nothing())
    lane = _lock_lane(session, name)
    assert lane is not None, "its row was inserted above, or existed"
    strikes = lane.strikes + 1
    default = min(MAX_COOLING_SECONDS, FIRST_COOLING_SECONDS * 2 ** (strikes - 1))
    end = func.now() + sql_intervals.seconds(default if seconds is None else seconds)
    # While a probe is out, `until` is the end of its time and not of a cool-down, so it does not count.
    until = end if lane.probing or lane.until is None else func.greatest(Lane.until, end)
    session.execute(
        update(Lane)
        .where(Lane.name == name, Lane.state != LaneState.STOPPED)
        .values(
            state=LaneState.COOLING,
            until=until,
            probing=False,
            strikes=strikes,
            category=category,
            code=code,
            changed_at=func.clock_timestamp(),
            changed_by=None,
        )
    )
    return float(
        session.execute(
            select(func.coalesce(func.extract("epoch", Lane.until - func.now()), 0)).where(Lane.name == name)
        ).scalar_one()
    )


def is_cooling_long() -> ColumnElement[bool]:
    """Return the condition of a lane for which the provider asked for a wait that an operator has to know of."""
    asked = Lane.until - Lane.changed_at > sql_intervals.seconds(LONG_COOLING_SECONDS)
    return and_(Lane.state == LaneState.COOLING, Lane.until > func.now(), asked)


def stop(session: Session, name: str, *, category: Category, code: str | None) -> None:
    """Close the lane until an operator resumes it, for failures that do not pass by themselves."""
    values = {
        "state": LaneState.STOPPED,
        "until": None,
        "probing": False,
        "category": category,
        "code": code,
        "changed_at": func.clock_timestamp(),
        "changed_by": None,
    }
    statement = insert(Lane).values(name=name, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[Lane.name], set_=values))


def record_success(session: Session, name: str, call_id: uuid.UUID | None = None, *, spread_seconds: float) -> int:
    """Record that a call succeeded: a lane that was cooling down is open. Return how many waiting jobs are released.

    Only a call that began after the lane was closed says so: one that was under way then proves nothing about the time
    since. `call_id` None: the request was made just now.
    """
    began_before = exists().where(ProviderCall.id == call_id, ProviderCall.started_at <= Lane.changed_at)
    opened = session.execute(
        update(Lane)
        .where(Lane.name == name, Lane.state == LaneState.COOLING, true() if call_id is None else ~began_before)
        .values(**OPEN_FIELDS, changed_at=func.now(), changed_by=None)
        .returning(Lane.name)
    ).all()
    return _release_waiting(session, name, spread_seconds) if opened else 0


def resume(session: Session, name: str, *, by: str, spread_seconds: float) -> int | None:
    """Open the lane for an operator and return how many waiting jobs are released. Returns None if it was open."""
    opened = session.execute(
        update(Lane)
        .where(Lane.name == name, Lane.state != LaneState.OPEN)
        .values(**OPEN_FIELDS, changed_at=func.now(), changed_by=by)
        .returning(Lane.name)
    ).all()
    return _release_waiting(session, name, spread_seconds) if opened else None


def closed_category(session: Session, job_id: uuid.UUID) -> Category | None:
    """Return the category for which the lane that this job waits for is closed. Returns None if it waits for none."""
    category = session.execute(
        select(Lane.category).join(Delivery, Delivery.lane == Lane.name).where(Delivery.job_id == job_id)
    ).scalar_one_or_none()
    return None if category is None else Category(category)


def wait_for(session: Session, job_id: uuid.UUID, name: str, closed: Closed, *, spread_seconds: float) -> None:
    """Postpone a waiting job's delivery until the lane may be asked again, plus a random part of `spread_seconds`.

    `closed` is the answer of `check_and_lock` in this transaction. While the lane is stopped the delivery waits until
    the job's deadline: resuming the lane releases it before, or the reconciler fails the job then.
    """
    session.execute(select(Job.id).where(Job.id == job_id).with_for_update())  # lock order: job, then delivery
    waits_until = postpone_delivery(session, job_id, name, closed, spread_seconds=spread_seconds)
    if waits_until is not None:
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(
                revision=Job.revision + 1,
                next_attempt_at=case((Job.state == State.RETRY_WAIT, waits_until), else_=None),
            )
            .execution_options(synchronize_session=False)
        )


def postpone_delivery(
    session: Session, job_id: uuid.UUID, name: str, closed: Closed, *, spread_seconds: float
) -> datetime | None:
    """Postpone the delivery alone, for a job that was changed in this transaction, and return until when it waits.

    Returns None if none is owed.
    """
    if closed.seconds is None:
        until: ColumnElement[Any] = select(Job.deadline_at).where(Job.id == job_id).scalar_subquery()
    else:
        until = (
            func.now() + sql_intervals.seconds(closed.seconds) + func.random() * sql_intervals.seconds(spread_seconds)
        )
    return session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id)
        .values(
            lane=name,
            dispatches=0,  # its message arrived; the growing pauses are only for messages that get lost
            not_before=func.greatest(Delivery.not_before, until),
            due_at=func.greatest(Delivery.not_before, until),
        )
        .returning(Delivery.not_before)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()


def _lock_lane(session: Session, name: str) -> Lane | None:
    """Lock and return the lane's row. Returns None if it has none, so was never closed."""
    return session.execute(
        select(Lane).where(Lane.name == name).with_for_update().execution_options(populate_existing=True)
    ).scalar_one_or_none()


def _closed(session: Session, lane: Lane) -> Closed | None:
    """Return how this lane is closed, or None if it is open or its cool-down is over."""
    category = None if lane.category is None else Category(lane.category)
    if lane.state == LaneState.STOPPED:
        return Closed(LaneState.STOPPED, None, category)
    if lane.state == LaneState.COOLING and lane.until is not None:
        left = _seconds_until(session, lane.until)
        if left > 0:
            return Closed(LaneState.COOLING, min(left, PROBE_WAIT_SECONDS) if lane.probing else left, category)
    return None


def _seconds_until(session: Session, time: datetime) -> float:
    return float(session.execute(select(func.extract("epoch", time - func.now()))).scalar_one())


def _full(session: Session, name: str, limit: int) -> Full | None:
    """Return Full if `limit` calls are in flight on the lane, otherwise None."""
    # One transaction at a time counts, until it commits its call. Otherwise two could both take the last free slot.
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"lane {name}"})
    in_flight = session.execute(
        select(func.count()).where(ProviderCall.outcome == literal_column("'open'"), ProviderCall.lane == name)
    ).scalar_one()
    return Full() if in_flight >= limit else None


def _release_waiting(session: Session, name: str, spread_seconds: float) -> int:
    """Let all jobs that wait for the lane run at random times within `spread_seconds`, and return their number.

    Their revisions grow, so that their pages show it. The lane must be locked; the jobs are locked by id.
    """
    jobs = (
        session.execute(
            select(Job.id)
            .join(Delivery, Delivery.job_id == Job.id)
            .where(Delivery.lane == name)
            .order_by(Job.id)
            .with_for_update(of=Job)
        )
        .scalars()
        .all()
    )
    session.execute(
        update(Delivery)
        .where(Delivery.job_id.in_(jobs), Delivery.lane == name)
        .values(
            lane=None,
            dispatches=0,
            not_before=func.now() + func.random() * sql_intervals.seconds(spread_seconds),
            due_at=func.now(),
        )
        .execution_options(synchronize_session=False)
    )
    session.execute(
        update(Job)
        .where(Job.id.in_(jobs))
        .values(
            revision=Job.revision + 1,
            next_attempt_at=case((Job.state == State.RETRY_WAIT, func.now()), else_=None),
        )
        .execution_options(synchronize_session=False)
    )
    return len(jobs)
