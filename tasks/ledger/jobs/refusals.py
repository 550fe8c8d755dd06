"""Decides which jobs may only be claimed alone, and says why a claim was refused."""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.delivery import outbox
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models import Checkpoint, Delivery, Job
from tasks.ledger.states import READ_STEP, TERMINAL, State


def is_suspect() -> ColumnElement[bool]:
    """Return the SQL condition that a job may be what ended its worker, so that it may only be claimed alone.

    It was being read when its worker died, and it has not been read since. What waits for the AI service, or has only
    its result left to save, ends no process.
    """
    return (Job.suspicions > 0) & ~was_read()


def was_read() -> ColumnElement[bool]:
    return exists().where(Checkpoint.job_id == Job.id, Checkpoint.step == READ_STEP)


def why_refused(session: Session, job_id: uuid.UUID, worker: str, *, repeated: bool) -> Claim | Refused:
    """Return the reason for which the claim's UPDATE matched no row, and reschedule the delivery where one is owed.

    Returns the claim instead if the request is `repeated` and this worker holds the job.
    """
    found = session.execute(
        select(
            Job.state,
            (Job.deadline_at <= func.clock_timestamp()).label("past_deadline"),
            (Delivery.not_before > func.now()).label("early"),
            is_disabled(Job.account_id).label("disabled"),
            is_suspect().label("suspect"),
            Job.claimed_by,
            Job.generation,
            Job.attempts,
            Job.max_attempts,
            func.extract("epoch", Job.deadline_at - func.clock_timestamp()).label("seconds_left"),
        )
        .outerjoin(Delivery, Delivery.job_id == Job.id)
        .where(Job.id == job_id)
    ).one_or_none()
    if found is None:
        return Refused("unknown job")
    state, early, disabled = found.state, found.early, found.disabled
    if state in TERMINAL:
        return Refused("finished")
    if repeated and state == State.RUNNING and found.claimed_by == worker:
        return Claim(job_id, found.generation, found.attempts + 1, found.max_attempts, float(found.seconds_left))
    if state in (State.RUNNING, State.CANCEL_REQUESTED):
        return Refused("held")
    if found.past_deadline:
        return Refused("deadline")
    if early:
        outbox.bring_forward(session, job_id)
        return Refused("early")
    if disabled:
        outbox.reschedule(session, job_id)
        return Refused("disabled")
    if found.suspect:
        return Refused("suspect")
    return Refused("not owed")
