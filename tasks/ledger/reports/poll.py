"""The state of a job that pages poll for, read with one statement."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, Uuid, and_, case, func, select
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.delivery import fair_order
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
    of deliveries that it was ever owed. `jobs_before` is how many jobs come before it; None if it does not wait for its
    turn. `others_sent` says that the queue holds a message, and `no_worker` that no worker was seen lately.
    """

    revision: int
    state: State
    seconds_to_deadline: float
    seconds_to_attempt: float | None
    seconds_overdue: float | None
    undelivered: bool
    paused: bool
    deliveries: int
    jobs_before: int | None
    others_sent: bool
    no_worker: bool


def poll_query() -> Select[Any]:
    """Return the query of a poll: the columns that `read_poll_state` needs, of a job of one account.

    Its parameters are `job_id`, `account_id` and the `queue` of the site.
    """

    def in_seconds(interval: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.extract("epoch", interval)

    job_id, account_id = parameter("job_id", Uuid()), parameter("account_id", Uuid())
    queue = parameter("queue", String())
    stopped = func.coalesce(Gate.dispatch_stopped, False) | is_disabled(Job.account_id)
    held_back = stopped | Gate.at_once.is_not(None)
    waits = Job.state.in_(list(WAITING))
    return (
        select(
            Job.revision,
            Job.state,
            in_seconds(Job.deadline_at - func.now()),
            in_seconds(Job.next_attempt_at - func.now()),
            in_seconds(func.now() - Delivery.not_before),
            Delivery.job_id.is_not(None) & Delivery.dispatched_at.is_(None) & Delivery.lane.is_(None) & ~held_back,
            stopped & waits,
            Job.deliveries,
            case((and_(Job.state == State.QUEUED, ~stopped), fair_order.jobs_before(queue, job_id))),
            waits & fair_order.some_are_on_their_way(queue),
            waits & fair_order.no_worker_is_there(queue),
        )
        .outerjoin(Delivery, Delivery.job_id == Job.id)
        .outerjoin(Gate, Gate.queue == Job.queue)
        .where(Job.id == job_id, Job.account_id == account_id)
    )


_POLL = CompiledStatement(poll_query())
_REVISION = CompiledStatement(
    select(Job.revision).where(Job.id == parameter("job_id", Uuid()), Job.account_id == parameter("account_id", Uuid()))
)


def poll_state_of(session: Session, job_id: uuid.UUID, account_id: uuid.UUID, queue: str) -> PollState | None:
    """Return what a poll needs to answer "unchanged", without reading the whole job.

    Returns None if there is no such job or it is another account's, as `job_views.job_of` does.
    """
    row = _POLL.execute(session, job_id=job_id, account_id=account_id, queue=queue).one_or_none()
    return None if row is None else read_poll_state(row)


def read_poll_state(row: Sequence[Any]) -> PollState:
    """Return the state that a row of `poll_query` holds."""
    revision, state, to_deadline, to_attempt, overdue, undelivered, paused, deliveries, before, others, no_worker = row
    return PollState(
        revision=revision,
        state=State(state),
        seconds_to_deadline=float(to_deadline),
        seconds_to_attempt=None if to_attempt is None else float(to_attempt),
        seconds_overdue=None if overdue is None or overdue < 0 or paused else float(overdue),
        undelivered=undelivered,
        paused=paused,
        deliveries=deliveries,
        jobs_before=before,
        others_sent=others,
        no_worker=no_worker,
    )


def revision_of(on: Connection | Session, job_id: uuid.UUID, account_id: uuid.UUID) -> int | None:
    """Return the revision of a job of this account. Returns None if there is no such job or it is another account's."""
    revision: int | None = _REVISION.execute(on, job_id=job_id, account_id=account_id).scalar_one_or_none()
    return revision
