"""The way to one provider: open, cooling down until a moment, or stopped until an operator acts.

One request finds a closed door, not one a job. Whoever would call asks here first, in the transaction that writes the
call down; the lane's row is locked for it, so that one job probes after a cool-down and the number of calls in the air
is bounded over all workers.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger import sql_intervals
from tasks.ledger.errors import Category
from tasks.ledger.models import Delivery, Job, Lane, ProviderCall
from tasks.ledger.states import CallOutcome, LaneState, State

PROBE_WAIT_SECONDS = 2.0
FIRST_COOLING_SECONDS = 2.0
LONGEST_COOLING_SECONDS = 60.0
NOTHING_WRONG = {
    "state": LaneState.OPEN,
    "until": None,
    "probing": False,
    "strikes": 0,
    "category": None,
    "code": None,
}


@dataclass(frozen=True)
class Closed:
    """No call now. `seconds` is how long to wait before asking again, None: until somebody acts."""

    state: LaneState
    seconds: float | None
    category: Category | None


@dataclass(frozen=True)
class Full:
    """The lane is open, and as many calls as allowed are in the air."""


def ask(session: Session, name: str, *, limit: int, probe_seconds: float) -> Closed | Full | None:
    """May one more call be made now? None: yes. Holds the lane's row until the transaction ends.

    After a cool-down the first to ask is the probe: the door stays shut for the others until its answer, or for
    `probe_seconds` if none comes.
    """
    lane = _locked(session, name)
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


def door(session: Session, name: str) -> Closed | None:
    """Whether the lane is closed, without taking anything. For a look before the work begins."""
    lane = session.execute(select(Lane).where(Lane.name == name)).scalar_one_or_none()
    return None if lane is None else _closed(session, lane)


def held_shut(session: Session, name: str) -> Closed | None:
    """Whether the lane is closed; if so it stays closed until this transaction ends. For who is about to wait for it.

    Whoever opens the lane lets go those who wait, and does not see one who has not committed yet. That one would wait
    for a door that is open. So the opener waits for this transaction first. To be asked before a job is locked: openers
    lock the lane, then the jobs.
    """
    lane = session.execute(
        select(Lane).where(Lane.name == name).with_for_update(read=True).execution_options(populate_existing=True)
    ).scalar_one_or_none()
    return None if lane is None else _closed(session, lane)


def cool(session: Session, name: str, *, seconds: float | None, category: Category, code: str | None) -> float:
    """Close the lane for `seconds`, or for longer each time the provider gives none. For how long it is closed now.

    A cool-down that lasts longer already is not cut short, and a stopped lane stays stopped.
    """
    session.execute(insert(Lane).values(name=name, state=LaneState.OPEN).on_conflict_do_nothing())
    lane = _locked(session, name)
    assert lane is not None
    strikes = lane.strikes + 1
    own = min(LONGEST_COOLING_SECONDS, FIRST_COOLING_SECONDS * 2 ** (strikes - 1))
    asked = func.now() + sql_intervals.seconds(own if seconds is None else seconds)
    until = asked if lane.probing or lane.until is None else func.greatest(Lane.until, asked)
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
            changed_at=func.now(),
            changed_by=None,
        )
    )
    return float(
        session.execute(
            select(func.coalesce(func.extract("epoch", Lane.until - func.now()), 0)).where(Lane.name == name)
        ).scalar_one()
    )


def stop(session: Session, name: str, *, category: Category, code: str | None) -> None:
    """Close the lane until an operator resumes it: what is wrong does not pass by itself."""
    values = {
        "state": LaneState.STOPPED,
        "until": None,
        "probing": False,
        "category": category,
        "code": code,
        "changed_at": func.now(),
        "changed_by": None,
    }
    statement = insert(Lane).values(name=name, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[Lane.name], set_=values))


def answered(session: Session, name: str, *, spread_seconds: float) -> int:
    """A call went through. Where the lane was cooling it is open again; how many waiting jobs that lets go."""
    opened = session.execute(
        update(Lane)
        .where(Lane.name == name, Lane.state == LaneState.COOLING)
        .values(**NOTHING_WRONG, changed_at=func.now(), changed_by=None)
        .returning(Lane.name)
    ).all()
    return _let_go(session, name, spread_seconds) if opened else 0


def resume(session: Session, name: str, *, by: str, spread_seconds: float) -> int | None:
    """An operator opens the lane. How many waiting jobs that lets go; None if it was open."""
    opened = session.execute(
        update(Lane)
        .where(Lane.name == name, Lane.state != LaneState.OPEN)
        .values(**NOTHING_WRONG, changed_at=func.now(), changed_by=by)
        .returning(Lane.name)
    ).all()
    return _let_go(session, name, spread_seconds) if opened else None


def blocks(session: Session, job_id: uuid.UUID) -> Category | None:
    """Why the lane this job waits for is closed; None if it waits for none."""
    category = session.execute(
        select(Lane.category).join(Delivery, Delivery.lane == Lane.name).where(Delivery.job_id == job_id)
    ).scalar_one_or_none()
    return None if category is None else Category(category)


def wait_for(session: Session, job_id: uuid.UUID, name: str, closed: Closed, *, spread_seconds: float) -> None:
    """Let a waiting job's delivery wait until the lane may be asked again, at a random moment within the spread.

    `closed` is what `held_shut` said in this transaction.
    Behind a stopped lane that is the job's deadline: a resume lets it go before, or the reconciler ends it then.
    """
    session.execute(select(Job.id).where(Job.id == job_id).with_for_update())  # the lock order: job, then delivery
    if closed.seconds is None:
        until: ColumnElement[Any] = select(Job.deadline_at).where(Job.id == job_id).scalar_subquery()
    else:
        until = (
            func.now() + sql_intervals.seconds(closed.seconds) + func.random() * sql_intervals.seconds(spread_seconds)
        )
    parked = session.execute(
        update(Delivery)
        .where(Delivery.job_id == job_id)
        .values(
            lane=name,
            dispatches=0,  # it arrived; only what gets lost is to be sent more and more rarely
            not_before=func.greatest(Delivery.not_before, until),
            due_at=func.greatest(Delivery.not_before, until),
        )
        .returning(Delivery.not_before)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    if parked is not None:
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(
                revision=Job.revision + 1,
                next_attempt_at=case((Job.state == State.RETRY_WAIT, parked), else_=None),
            )
            .execution_options(synchronize_session=False)
        )


def _locked(session: Session, name: str) -> Lane | None:
    return session.execute(
        select(Lane).where(Lane.name == name).with_for_update().execution_options(populate_existing=True)
    ).scalar_one_or_none()


def _closed(session: Session, lane: Lane) -> Closed | None:
    category = None if lane.category is None else Category(lane.category)
    if lane.state == LaneState.STOPPED:
        return Closed(LaneState.STOPPED, None, category)
    if lane.state == LaneState.COOLING and lane.until is not None:
        left = _seconds_until(session, lane.until)
        if left > 0:
            return Closed(LaneState.COOLING, min(left, PROBE_WAIT_SECONDS) if lane.probing else left, category)
    return None


def _seconds_until(session: Session, moment: datetime) -> float:
    return float(session.execute(select(func.extract("epoch", moment - func.now()))).scalar_one())


def _full(session: Session, name: str, limit: int) -> Full | None:
    # Serialises the counting: without the lock two transactions would both see the last free place.
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"lane {name}"})
    in_the_air = session.execute(
        select(func.count()).where(ProviderCall.outcome == CallOutcome.OPEN, ProviderCall.lane == name)
    ).scalar_one()
    return Full() if in_the_air >= limit else None


def _let_go(session: Session, name: str, spread_seconds: float) -> int:
    """Everybody who waits for the lane may run within `spread_seconds`, in random order, and their pages say so."""
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
