"""The single UPDATE that changes a job's state, and the claim that a worker must show for it.

The UPDATE matches only the states that the table in `states` allows for the event. With a claim it matches only jobs
that are held, by the claim of this generation. So a worker that has lost its claim changes nothing, even where the job
was put back since and its generation has not grown yet.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, or_, update
from sqlalchemy.orm import Session

from tasks.ledger.errors import Category
from tasks.ledger.models import Attempt, Job
from tasks.ledger.notifications import outbox
from tasks.ledger.states import HELD, SETBACKS, TERMINAL, TRANSITIONS, Event, Outcome, State


@dataclass(frozen=True)
class Claim:
    """The right to one attempt at one job. Every write of the attempt must show it."""

    job_id: uuid.UUID
    generation: int
    attempt: int  # number among the attempts that count, from 1
    max_attempts: int
    seconds_left: float = math.inf  # until the job's deadline, when the claim was made


@dataclass(frozen=True)
class Refused:
    """The answer to a request for a claim that was refused.

    `reason` is `finished`, `held`, `early`, `lane`, `stopped` or `full` (both set by an operator), `deadline`,
    `disabled`, `suspect` (it may only run alone), `not owed` or `unknown job`.
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
    then: tuple[Event, ColumnElement[bool]] | None = None,
    **values: Any,
) -> Row[*tuple[Any, ...]] | None:
    """Change the job's state as `event` does, if its present state, the guards and the claim allow it.

    Returns a row with `state` (the new one), `generation`, `attempts`, `max_attempts`, `interruptions`, `suspicions`,
    `queue`, `deliveries`, `next_attempt_at` and `seconds_left` until the deadline. Returns None if the event is not
    allowed in this state, a guard is false, or the generation is not the claim's; nothing is written then.

    `then` is an event that follows at once where its condition is true. Both are this one UPDATE: a second one in the
    same transaction would lock the rows that foreign keys refer to, after the job and so against the lock order.

    At a final state the notifications about the end are queued, and at a replay those that were not sent are deleted.
    """
    table = TRANSITIONS[event]
    allowed = list(table) if claim is None else [state for state in table if state in HELD]
    statement = update(Job).where(Job.id == job_id, Job.state.in_(allowed), *guards)
    if claim is not None:
        statement = statement.where(Job.generation == claim.generation)
    target = case({str(before): _after(after, then) for before, after in table.items()}, value=Job.state)
    if event in SETBACKS or event is Event.REPLAY:
        values["deliveries"] = Job.deliveries + 1  # a second UPDATE would lock the rows that foreign keys refer to
    ends = [_ends(Job.state == before, after, then) for before, after in table.items()]
    terminal = [end for end in ends if end is not None]
    row = session.execute(
        statement.values(
            state=target,
            revision=Job.revision + 1,
            finished_at=case((or_(*terminal), func.now()), else_=None) if terminal else None,
            **values,
        )
        .returning(
            Job.state,
            Job.generation,
            Job.attempts,
            Job.max_attempts,
            Job.interruptions,
            Job.suspicions,
            Job.queue,
            Job.deliveries,
            Job.next_attempt_at,
            func.extract("epoch", Job.deadline_at - func.clock_timestamp()).label("seconds_left"),
        )
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if row is not None and row.state in TERMINAL:
        outbox.enqueue_end_of_job(session, job_id)  # here, so that no path to a final state can forget it
    elif row is not None and event is Event.REPLAY:
        outbox.cancel_of_job(session, job_id)
    return row


def _after(after: State, then: tuple[Event, ColumnElement[bool]] | None) -> Any:
    """Return the state that a job gets, or the expression of it if another event may follow at once."""
    if then is None or after not in TRANSITIONS[then[0]]:
        return str(after)
    event, condition = then
    return case((condition, str(TRANSITIONS[event][after])), else_=str(after))


def _ends(
    is_before: ColumnElement[bool], after: State, then: tuple[Event, ColumnElement[bool]] | None
) -> ColumnElement[bool] | None:
    """Return the condition under which a job of this state ends now. None if it does not."""
    if after in TERMINAL:
        return is_before
    if then is None or TRANSITIONS[then[0]].get(after) not in TERMINAL:
        return None
    return is_before & then[1]


def close_attempt(
    session: Session,
    job_id: uuid.UUID,
    generation: int,
    outcome: Outcome,
    category: Category | None = None,
    code: str | None = None,
) -> None:
    """Record how the attempt of this generation ended. An attempt that was closed before stays as it is."""
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == job_id, Attempt.generation == generation, Attempt.ended_at.is_(None))
        .values(ended_at=func.now(), outcome=outcome, error_category=category, error_code=code)
    )
