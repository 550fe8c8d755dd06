"""The present figures of the site. Nothing here writes.

Only unfinished jobs are read, so the queries are fast however many jobs have ended. All are restricted to one queue,
which excludes the jobs of a drill on the same database.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_held
from tasks.ledger.calls.lanes import LONG_COOLING_SECONDS
from tasks.ledger.delivery import fair_order
from tasks.ledger.delivery import gate as delivery_gate
from tasks.ledger.delivery.gate import GateState
from tasks.ledger.models import Delivery, Job, Lane, ProviderCall
from tasks.ledger.models.workers import Worker
from tasks.ledger.reports import job_views
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import HELD, UNFINISHED, CallOutcome, LaneState, State
from tasks.ledger.terms import RenewalTimes

DELIVERY_OVERDUE_SECONDS = 10.0
"""Sets the delay after which a due delivery is overdue. A running dispatcher sends it sooner."""


@dataclass(frozen=True)
class Retrying:
    """The jobs that wait to retry after the same cause. `first` is the earliest time at which one of them may run."""

    category: str | None
    code: str | None
    jobs: int
    first: datetime | None


@dataclass(frozen=True)
class LaneReport:
    """The present state of a lane. `category` and `until` are None while it is open; `until` also while it is stopped.

    `in_flight` counts the calls in flight, and `waiting` the jobs that wait for the lane to open.
    """

    name: str
    state: LaneState
    category: str | None
    code: str | None
    until: datetime | None
    changed_at: datetime | None
    changed_by: str | None
    in_flight: int
    waiting: int

    @property
    def is_cooling_long(self) -> bool:
        """Return True if the provider asked for a wait that an operator has to know of."""
        if self.until is None or self.changed_at is None:
            return False
        return (self.until - self.changed_at).total_seconds() > LONG_COOLING_SECONDS


@dataclass(frozen=True)
class WorkerNow:
    """A worker that has not shut down. `alive`: its last heartbeat is recent enough."""

    name: str
    slots: int
    claims: int
    started_at: datetime
    seen_at: datetime
    alive: bool


@dataclass(frozen=True)
class Now:
    """The present figures of the site, by the database's clock.

    `longest_wait_seconds` is how long the oldest claimable delivery has waited for a worker, None if there is none.
    `oldest` is the unfinished job that was accepted first, with that time. `seen_at` is the last heartbeat of any
    worker, None if there never was one. `unknown_calls` counts the calls of unfinished jobs that may have been billed
    without a response.
    """

    at: datetime
    jobs: Mapping[State, int]
    longest_wait_seconds: float | None
    oldest: tuple[uuid.UUID, datetime] | None
    retrying: Sequence[Retrying]
    unknown_calls: int
    orphans: int
    owed: int
    overdue: int
    lanes: Sequence[LaneReport]
    workers: Sequence[WorkerNow]
    seen_at: datetime | None
    gate: GateState

    @property
    def waiting(self) -> int:
        """Return the number of queued jobs: not begun yet, or handed back."""
        return self.jobs[State.QUEUED]

    @property
    def held(self) -> int:
        """Return the number of jobs that a worker holds."""
        return sum(self.jobs[state] for state in HELD)

    @property
    def alive(self) -> int:
        """Return the number of live workers."""
        return sum(worker.alive for worker in self.workers)


def now(session: Session, *, queue: str, lane: str, alive_seconds: float, renewal: RenewalTimes) -> Now:
    """Return all present figures. `lane` is the site's own lane, which is included even if it was never closed."""
    at, seen_at = session.execute(
        select(func.now(), select(func.max(Worker.seen_at)).where(Worker.queue == queue).scalar_subquery())
    ).one()
    owed, overdue, longest = session.execute(_owed(session, queue)).one()
    return Now(
        at=at,
        jobs=unfinished(session, queue),
        longest_wait_seconds=None if longest is None or longest <= 0 else float(longest),
        oldest=_oldest(session, queue),
        retrying=_retrying(session, queue),
        unknown_calls=_unknown(session, queue),
        orphans=job_views.orphans(session, renewal=renewal, queue=queue),
        owed=owed,
        overdue=overdue,
        lanes=_lanes(session, queue, lane),
        workers=_workers(session, queue, alive_seconds),
        seen_at=seen_at,
        gate=delivery_gate.load(session, queue),
    )


def unfinished(session: Session, queue: str) -> dict[State, int]:
    """Count the unfinished jobs by state. Every state that is not final is in the result."""
    rows = session.execute(
        select(Job.state, func.count()).where(Job.finished_at.is_(None), Job.queue == queue).group_by(Job.state)
    )
    found = {state: count for state, count in rows}
    return {state: found.get(state, 0) for state in State if state in UNFINISHED}


def _owed(session: Session, queue: str) -> Select[int, int, Any]:
    not_disabled = ~is_held()
    overdue_before = func.now() - seconds(DELIVERY_OVERDUE_SECONDS)
    # A queue that refuses messages postpones them again and again, so their due time alone would never be late.
    refused = (Delivery.dispatches > 0) & Delivery.dispatched_at.is_(None) & (Delivery.not_before < overdue_before)
    late: ColumnElement[bool] = ((Delivery.due_at < overdue_before) | refused) & not_disabled
    if fair_order.hold_back(session, queue):
        late &= fair_order.needs_no_turn()
    return select(
        func.count(),
        func.count().filter(late),
        func.extract("epoch", func.now() - func.min(Delivery.not_before).filter(not_disabled)),
    ).where(Delivery.queue == queue)


def _oldest(session: Session, queue: str) -> tuple[uuid.UUID, datetime] | None:
    row = session.execute(
        select(Job.id, Job.created_at)
        .where(Job.finished_at.is_(None), Job.queue == queue)
        .order_by(Job.created_at + seconds(0))  # `+ 0` keeps the planner from the index on all jobs: few are unfinished
        .limit(1)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def _retrying(session: Session, queue: str) -> list[Retrying]:
    rows = session.execute(
        select(Job.error_category, Job.error_code, func.count(), func.min(Job.next_attempt_at))
        .where(Job.finished_at.is_(None), Job.state == State.RETRY_WAIT, Job.queue == queue)
        .group_by(Job.error_category, Job.error_code)
        .order_by(func.count().desc(), Job.error_category, Job.error_code)
    )
    return [Retrying(*row) for row in rows]


def _unknown(session: Session, queue: str) -> int:
    return session.execute(
        select(func.count())
        .select_from(Job)
        .join(ProviderCall, ProviderCall.job_id == Job.id)
        .where(Job.finished_at.is_(None), Job.queue == queue, ProviderCall.outcome == CallOutcome.UNKNOWN)
    ).scalar_one()


def _lanes(session: Session, queue: str, own: str) -> list[LaneReport]:
    in_flight = dict(
        session.execute(
            select(ProviderCall.lane, func.count())
            .where(ProviderCall.outcome == CallOutcome.OPEN)
            .group_by(ProviderCall.lane)
        ).all()
    )
    waiting = dict(
        session.execute(
            select(Delivery.lane, func.count()).where(Delivery.lane.is_not(None)).group_by(Delivery.lane)
        ).all()
    )
    found = [
        LaneReport(
            name=lane.name,
            state=LaneState(lane.state),
            category=lane.category,
            code=lane.code,
            until=lane.until,
            changed_at=lane.changed_at,
            changed_by=lane.changed_by,
            in_flight=in_flight.get(lane.name, 0),
            waiting=waiting.get(lane.name, 0),
        )
        for lane in session.execute(
            select(Lane)
            .where(Lane.name.startswith(f"{queue}:", autoescape=True))
            .execution_options(populate_existing=True)
        ).scalars()
    ]
    if all(lane.name != own for lane in found):
        found.append(LaneReport(own, LaneState.OPEN, None, None, None, None, None, in_flight.get(own, 0), 0))
    # The site's own lane comes first. An open lane of a model or URL that is no longer used is left out.
    shown = [lane for lane in found if lane.name == own or lane.state is not LaneState.OPEN or lane.in_flight]
    return sorted(shown, key=lambda lane: (lane.name != own, lane.name))


def _workers(session: Session, queue: str, alive_seconds: float) -> list[WorkerNow]:
    claims = (
        select(Job.claimed_by, func.count().label("claims"))
        .where(Job.lease_expires_at.is_not(None))
        .group_by(Job.claimed_by)
        .subquery()
    )
    alive = Worker.seen_at > func.now() - seconds(alive_seconds)
    rows = session.execute(
        select(Worker.name, Worker.slots, func.coalesce(claims.c.claims, 0), Worker.started_at, Worker.seen_at, alive)
        .outerjoin(claims, claims.c.claimed_by == Worker.name)
        .where(Worker.queue == queue, Worker.left_at.is_(None))
        .order_by(alive.desc(), Worker.started_at)
    )
    return [WorkerNow(*row) for row in rows]
