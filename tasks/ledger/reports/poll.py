"""The state of a job that pages poll for, read with one statement."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.models import Delivery, Job
from tasks.ledger.models.control import Gate
from tasks.ledger.states import WAITING, State


@dataclass(frozen=True)
class PollState:
    """The present state of a job. All times are by the database's clock.

    `seconds_to_attempt` is None unless the job waits to retry. `seconds_overdue` is for how long a free worker could
    have started the job; None if its time has not come, a worker has it, or the work is paused. `undelivered` is True
    if its delivery was never sent to the queue although neither a lane nor an operator holds it back. `paused` is True
    if the job waits only for an operator, who has paused the work or disabled the account. `deliveries` is the number
    of deliveries that it was ever owed.
    """

    revision: int
    state: State
    seconds_to_deadline: float
    seconds_to_attempt: float | None
    seconds_overdue: float | None
    undelivered: bool
    paused: bool
    deliveries: int


def poll_state_of(session: Session, job_id: uuid.UUID, account_id: uuid.UUID) -> PollState | None:
    """Return what a poll needs to answer "unchanged", without reading the whole job.

    Returns None if there is no such job or it is another account's, as `job_views.job_of` does.
    """

    def in_seconds(interval: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.extract("epoch", interval)

    stopped = func.coalesce(Gate.dispatch_stopped, False) | is_disabled(Job.account_id)
    held_back = stopped | Gate.at_once.is_not(None)
    row = session.execute(
        select(
            Job.revision,
            Job.state,
            in_seconds(Job.deadline_at - func.now()),
            in_seconds(Job.next_attempt_at - func.now()),
            in_seconds(func.now() - Delivery.not_before),
            Delivery.job_id.is_not(None) & Delivery.dispatched_at.is_(None) & Delivery.lane.is_(None) & ~held_back,
            stopped & Job.state.in_(list(WAITING)),
            Job.deliveries,
        )
        .outerjoin(Delivery, Delivery.job_id == Job.id)
        .outerjoin(Gate, Gate.queue == Job.queue)
        .where(Job.id == job_id, Job.account_id == account_id)
    ).one_or_none()
    if row is None:
        return None
    revision, state, to_deadline, to_attempt, overdue, undelivered, paused, deliveries = row
    return PollState(
        revision=revision,
        state=State(state),
        seconds_to_deadline=float(to_deadline),
        seconds_to_attempt=None if to_attempt is None else float(to_attempt),
        seconds_overdue=None if overdue is None or overdue < 0 or paused else float(overdue),
        undelivered=undelivered,
        paused=paused,
        deliveries=deliveries,
    )
