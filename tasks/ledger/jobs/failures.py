"""Reads what the decision about a failed attempt is based on. Nothing here writes."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tasks.ledger.errors import ClaimLost
from tasks.ledger.models import Attempt, Job, JobEvent
from tasks.ledger.states import Event, Outcome


def failures_in_a_row(session: Session, job_id: uuid.UUID) -> int:
    """Count the attempts that ended with a failure after which the job was tried again, since it was last put back."""
    replayed = (
        select(func.max(JobEvent.generation))
        .where(JobEvent.job_id == job_id, JobEvent.event == Event.REPLAY)
        .scalar_subquery()
    )
    return session.execute(
        select(func.count()).where(
            Attempt.job_id == job_id,
            Attempt.outcome.in_([Outcome.RETRY, Outcome.TIMED_OUT]),
            Attempt.generation > func.coalesce(replayed, 0),
        )
    ).scalar_one()


def deadline_of(session: Session, job_id: uuid.UUID) -> tuple[datetime, datetime]:
    """Return the job's deadline and the present time, both by the database's clock: compare them only with each other.

    Raises ClaimLost if the job was deleted.
    """
    row = session.execute(select(Job.deadline_at, func.now()).where(Job.id == job_id)).one_or_none()
    if row is None:
        raise ClaimLost
    return row[0], row[1]
