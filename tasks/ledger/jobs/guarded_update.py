"""The one guarded UPDATE by which a job moves, and the claim that whoever ends an attempt must show.

The allowed states come from the table in `states`; the generation is compared, so that a worker that lost its right is
refused whatever it holds in its hands.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, update
from sqlalchemy.orm import Session

from tasks.ledger.errors import Category
from tasks.ledger.models import Attempt, Job
from tasks.ledger.notifications import outbox
from tasks.ledger.states import TERMINAL, TRANSITIONS, Event, Outcome


@dataclass(frozen=True)
class Claim:
    """The right to one attempt at one job. Whoever writes must show it."""

    job_id: uuid.UUID
    generation: int
    attempt: int  # of the counted ones, from 1
    max_attempts: int


@dataclass(frozen=True)
class Refused:
    """No claim was given.

    `reason`: `finished`, `held`, `early`, `lane`, `stopped` or `full` (by an operator), `deadline`, `not owed` or
    `unknown job`.
    """

    reason: str


RELEASED_FIELDS: Mapping[str, Any] = {
    "claimed_by": None,
    "claimed_at": None,
    "lease_expires_at": None,
    "reserved_until": None,
}


def change_state(
    session: Session,
    event: Event,
    job_id: uuid.UUID,
    *guards: ColumnElement[bool],
    claim: Claim | None = None,
    **values: Any,
) -> Row[str, int, int, int, int] | None:
    """The one guarded UPDATE. None: the event was not allowed, or a guard did not hold; nothing was written.

    The row has `state` (the new one), `generation`, `attempts`, `max_attempts`, `interruptions`.
    """
    table = TRANSITIONS[event]
    statement = update(Job).where(Job.id == job_id, Job.state.in_(list(table)), *guards)
    if claim is not None:
        statement = statement.where(Job.generation == claim.generation)
    target = case({str(before): str(after) for before, after in table.items()}, value=Job.state)
    terminal = [before for before, after in table.items() if after in TERMINAL]
    row = session.execute(
        statement.values(
            state=target,
            revision=Job.revision + 1,
            finished_at=case((Job.state.in_(terminal), func.now()), else_=None) if terminal else None,
            **values,
        )
        .returning(Job.state, Job.generation, Job.attempts, Job.max_attempts, Job.interruptions)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if row is not None and row.state in TERMINAL:
        outbox.enqueue_end_of_job(session, job_id)  # here, so that no way to an end can forget it
    elif row is not None and event is Event.REPLAY:
        outbox.cancel_of_job(session, job_id)
    return row


def close_attempt(
    session: Session,
    job_id: uuid.UUID,
    generation: int,
    outcome: Outcome,
    category: Category | None = None,
    code: str | None = None,
) -> None:
    """Write down how the attempt of this generation ended. One that was closed before stays as it is."""
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == job_id, Attempt.generation == generation, Attempt.ended_at.is_(None))
        .values(ended_at=func.now(), outcome=outcome, error_category=category, error_code=code)
    )
