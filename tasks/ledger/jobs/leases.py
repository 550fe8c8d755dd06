"""Renews leases, with one UPDATE for all claims of a process, and records heartbeats, one row per process."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.lost_claims import sessions
from tasks.ledger.models import Job
from tasks.ledger.models.workers import Worker
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import TRANSITIONS, Event, State


@dataclass(frozen=True)
class Renewal:
    """The answer to a renewal: the state of each job that is still held, by id.

    `unrenewed` are those among them whose lease was not renewed, since another transaction has locked the job.
    """

    states: dict[uuid.UUID, State]
    unrenewed: list[uuid.UUID]


def renew(session: Session, claims: Collection[Claim], *, lease_seconds: float) -> Renewal:
    """Renew the leases of these claims, at most up to their reservations, and return the states of their jobs.

    A claim whose job is missing in the answer is lost: the generation changed, the attempt ended, or the reservation is
    over. A worker must stop where the state is CANCEL_REQUESTED. Pages do not show the lease, so the revision stays.
    A job that is locked by another transaction is passed over, so that it holds up no other claim.
    """
    if not claims:
        return Renewal({}, [])
    pairs = [(claim.job_id, claim.generation) for claim in claims]
    held = (
        tuple_(Job.id, Job.generation).in_(pairs),
        Job.state.in_(list(TRANSITIONS[Event.RENEW])),
        Job.reserved_until > func.clock_timestamp(),
    )
    # Lock order: jobs by id, as in every function that changes many jobs at once. Otherwise two of them may deadlock.
    free = select(Job.id).where(*held).order_by(Job.id).with_for_update(key_share=True, skip_locked=True)
    locked = session.execute(free).scalars().all()
    renewed = session.execute(
        update(Job)
        .where(Job.id.in_(locked), *held)
        .values(lease_expires_at=func.least(func.clock_timestamp() + seconds(lease_seconds), Job.reserved_until))
        .returning(Job.id, Job.state)
        .execution_options(synchronize_session=False)
    ).all()
    states = {job_id: State(state) for job_id, state in renewed}
    if len(states) == len(pairs):
        return Renewal(states, [])
    passed_over = session.execute(select(Job.id, Job.state).where(*held, Job.id.not_in(states))).all()
    states |= {job_id: State(state) for job_id, state in passed_over}
    return Renewal(states, [job_id for job_id, _ in passed_over])


def record_heartbeat(
    session: Session,
    name: str,
    *,
    queue: str,
    slots: int,
    gap_seconds: float = math.inf,
    unrenewed: Sequence[uuid.UUID] = (),
    has_session: bool = False,
) -> None:
    """Record that this worker is alive now, and which claims it holds without having renewed them.

    After a pause of more than `gap_seconds` its heartbeats do not count as continuous any more. `has_session` says that
    this connection to PostgreSQL belongs to this worker alone and ends with it, so that its end can be seen.
    """
    clock = func.clock_timestamp()
    values: dict[str, Any] = {"seen_at": clock, "slots": slots, "left_at": None, "unrenewed": list(unrenewed)}
    if has_session:
        own = select(sessions.c.backend_start).where(sessions.c.pid == func.pg_backend_pid()).scalar_subquery()
        values |= {"backend_pid": func.pg_backend_pid(), "backend_started_at": own}
    statement = insert(Worker).values(name=name, queue=queue, **values)
    if gap_seconds < math.inf:
        had_gap = Worker.seen_at < clock - seconds(gap_seconds)
        values["steady_since"] = case((had_gap, clock), else_=Worker.steady_since)
    session.execute(statement.on_conflict_do_update(index_elements=[Worker.name], set_=values))


def sign_off(session: Session, name: str, *, forget_silent_seconds: float) -> None:
    """Record that this worker has ended, and delete the rows of workers that were last seen too long ago.

    The row of this worker stays: if it was the last, only that row knows since when there is no worker.
    """
    session.execute(
        update(Worker).where(Worker.name == name).values(seen_at=func.now(), left_at=func.now(), unrenewed=[])
    )
    session.execute(delete(Worker).where(Worker.seen_at < func.now() - seconds(forget_silent_seconds)))
