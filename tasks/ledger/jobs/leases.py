"""Renews leases, with one UPDATE for all claims of a process, and records heartbeats, one row per process."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.models import Job, Worker
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import TRANSITIONS, Event, State


def renew(session: Session, claims: Collection[Claim], *, lease_seconds: float) -> dict[uuid.UUID, State]:
    """Renew the leases of these claims, at most up to their reservations, and return the state of each job, by id.

    A claim whose job is missing in the result is lost: the generation changed, the attempt ended, or the reservation is
    over. A worker must stop where the state is CANCEL_REQUESTED. Pages do not show the lease, so the revision stays.
    """
    if not claims:
        return {}
    pairs = [(claim.job_id, claim.generation) for claim in claims]
    # Lock order: jobs by id, as in every function that changes many jobs at once. Otherwise two of them may deadlock.
    session.execute(select(Job.id).where(tuple_(Job.id, Job.generation).in_(pairs)).order_by(Job.id).with_for_update())
    rows = session.execute(
        update(Job)
        .where(
            tuple_(Job.id, Job.generation).in_(pairs),
            Job.state.in_(list(TRANSITIONS[Event.RENEW])),
            Job.reserved_until > func.now(),
        )
        .values(lease_expires_at=func.least(func.now() + seconds(lease_seconds), Job.reserved_until))
        .returning(Job.id, Job.state)
        .execution_options(synchronize_session=False)
    )
    return {job_id: State(state) for job_id, state in rows}


def record_heartbeat(session: Session, name: str, *, queue: str, slots: int) -> None:
    """Record that this worker is alive now."""
    statement = insert(Worker).values(name=name, queue=queue, slots=slots)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[Worker.name], set_={"seen_at": func.now(), "slots": slots, "left_at": None}
        )
    )


def sign_off(session: Session, name: str, *, forget_silent_seconds: float) -> None:
    """Record that this worker has ended, and delete the rows of workers that were last seen too long ago.

    The row of this worker stays: if it was the last, only that row knows since when there is no worker.
    """
    session.execute(update(Worker).where(Worker.name == name).values(seen_at=func.now(), left_at=func.now()))
    session.execute(delete(Worker).where(Worker.seen_at < func.now() - seconds(forget_silent_seconds)))
