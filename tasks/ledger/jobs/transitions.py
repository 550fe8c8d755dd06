"""The events of a job: one function for each event, and in it one guarded UPDATE.

The UPDATE matches only the states that the table in `states` lists for the event. A worker that ends an attempt must
pass its `Claim`; the UPDATE compares its generation, so a worker that has lost its claim is refused.
Functions take a session and never commit. Lock order: job, then delivery, then the other rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, insert, or_, select, true
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.calls import lanes
from tasks.ledger.calls.calls import close_open_calls
from tasks.ledger.delivery import gate, outbox
from tasks.ledger.errors import CancelRequested, Category, ClaimLost
from tasks.ledger.history.job_events import note
from tasks.ledger.jobs.guarded_update import RELEASED_FIELDS, Claim, Refused, change_state, close_attempt
from tasks.ledger.jobs.refusals import is_suspect, was_read, why_refused
from tasks.ledger.lost_claims import is_lost
from tasks.ledger.models import Attempt, Delivery, Job, Result
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import TERMINAL, CallOutcome, Event, LaneState, Outcome, State
from tasks.ledger.terms import RenewalTimes

LANE_SPREAD_SECONDS = 2.0  # jobs that waited for a closed lane come back at random times within this
MAX_INTERRUPTED_SECONDS = 60.0
INTERRUPTED_TOO_OFTEN = "interrupted_too_often"
MAX_SUSPICIONS = 2  # a job fails when its worker has died more often than this while it was read


def claim(
    session: Session,
    job_id: uuid.UUID,
    *,
    worker: str,
    lane: str,
    lease_seconds: float,
    reservation_seconds: float,
    alone: bool = False,
    repeated: bool = False,
) -> Claim | Refused:
    """Claim the job for one attempt: raise the generation, delete the delivery, and insert the attempt.

    Returns Refused if the job cannot be claimed. While the lane is closed, an operator has stopped or limited the work,
    or the account is disabled, the delivery stays owed and is sent again later. `alone` says that this worker holds
    nothing else, as a suspect requires. A job that this worker holds already was claimed by a commit whose answer was
    lost, so its claim is returned again; the caller must not have it from an earlier call. The lease and the
    reservation are stamped after all waiting for locks, and end with the job's deadline at the latest. Locks: the gate
    (shared), then the lane if it is closed (shared), then job and delivery.
    """
    gate_reason = gate.check(session, job_id)
    if gate_reason is not None:
        outbox.reschedule(session, job_id)
        return Refused(gate_reason)
    # A delivery that is not due yet keeps its own time; the UPDATE below refuses it.
    if lanes.check(session, lane) is not None and outbox.is_due(session, job_id):
        closed = lanes.check_and_lock(session, lane)
        if closed is not None:
            lanes.wait_for(session, job_id, lane, closed, spread_seconds=LANE_SPREAD_SECONDS)
            return Refused("lane")
    owed = select(Delivery.job_id).where(Delivery.job_id == job_id, Delivery.not_before <= func.now()).exists()
    clock = func.clock_timestamp()
    row = change_state(
        session,
        Event.CLAIM,
        job_id,
        owed,
        Job.deadline_at > clock,
        ~is_disabled(Job.account_id),
        true() if alone else ~is_suspect(),
        generation=Job.generation + 1,
        claimed_by=worker,
        claimed_at=clock,
        # The lease is computed before the reservation, the order of the columns, so it is never the later one.
        lease_expires_at=func.least(
            clock + seconds(lease_seconds), clock + seconds(reservation_seconds), Job.deadline_at
        ),
        reserved_until=func.least(clock + seconds(reservation_seconds), Job.deadline_at),
        next_attempt_at=None,
        started_at=func.coalesce(Job.started_at, clock),
    )
    if row is None:
        return why_refused(session, job_id, worker, repeated=repeated)
    outbox.consume(session, job_id)
    number = row.attempts + 1
    session.execute(insert(Attempt).values(job_id=job_id, generation=row.generation, number=number, worker=worker))
    note(session, job_id, Event.CLAIM, row.state, row.generation, attempt=number, of=row.max_attempts)
    return Claim(job_id, row.generation, number, row.max_attempts, float(row.seconds_left))


def progress(session: Session, claim: Claim, *, step: str, done: int, total: int) -> None:
    """Record the present step and how much of it is measured as done. Raises ClaimLost or CancelRequested."""
    row = change_state(
        session, Event.CHECKPOINT, claim.job_id, claim=claim, step=step, progress_done=done, progress_total=total
    )
    if row is None:
        raise _refused_progress(session, claim)


def _refused_progress(session: Session, claim: Claim) -> CancelRequested | ClaimLost:
    """Return CancelRequested if the claim is valid but the job is to be cancelled, otherwise ClaimLost.

    After CancelRequested the worker hands the job back, and that ends it at once.
    """
    cancelling = session.execute(
        select(Job.id).where(
            Job.id == claim.job_id, Job.generation == claim.generation, Job.state == State.CANCEL_REQUESTED
        )
    ).scalar_one_or_none()
    return ClaimLost() if cancelling is None else CancelRequested()


def succeed(session: Session, claim: Claim, *, text: str, facts: Mapping[str, Any]) -> State:
    """Save the result and end the job, in one transaction.

    Returns CANCELLED, and saves nothing, if a cancel was requested first. Raises ClaimLost.
    """
    row = _end(
        session,
        Event.SUCCEED,
        claim,
        Outcome.SUCCEEDED,
        counted=True,
        facts={"cut_off": facts.get("cut_off")},
        error_category=None,
        error_code=None,
    )
    if row.state == State.SUCCEEDED:
        session.execute(
            insert(Result).values(job_id=claim.job_id, generation=claim.generation, text=text, facts=dict(facts))
        )
    return State(row.state)


def retry_later(
    session: Session,
    claim: Claim,
    *,
    category: Category,
    code: str | None = None,
    delay_seconds: float,
    counts: bool = True,
    outcome: Outcome = Outcome.RETRY,
) -> State:
    """End the attempt, count it if it `counts`, and owe a delivery that may be claimed after `delay_seconds`.

    Returns CANCELLED, and owes nothing, if a cancel was requested first. Raises ClaimLost.
    """
    due = session.execute(select(func.now() + seconds(delay_seconds))).scalar_one()
    row = _end(
        session,
        Event.RETRY_LATER,
        claim,
        outcome,
        counted=counts,
        error_category=category,
        error_code=code,
        next_attempt_at=case((Job.state == State.RUNNING, due), else_=None),
        facts={"category": category, "code": code, "until": due.isoformat()},
    )
    if row.state == State.RETRY_WAIT:
        outbox.owe(session, claim.job_id, row.queue, row.deliveries, not_before=due)
    return State(row.state)


def fail(
    session: Session, claim: Claim, *, category: Category, code: str | None = None, outcome: Outcome = Outcome.FAILED
) -> State:
    """End the attempt and the job. Returns CANCELLED if a cancel was requested first. Raises ClaimLost."""
    row = _end(
        session,
        Event.FAIL,
        claim,
        outcome,
        counted=True,
        error_category=category,
        error_code=code,
        facts={"category": category, "code": code},
    )
    return State(row.state)


def release(
    session: Session,
    claim: Claim,
    *,
    reason: str,
    interrupted: bool,
    wait_seconds: float = 0,
    behind: tuple[str, lanes.Closed] | None = None,
) -> State:
    """Hand the job back without counting the attempt, and owe it a delivery after `wait_seconds`.

    `behind` is the lane that the job waits for, and how it was closed when the worker asked. If it still is, the
    delivery waits until the lane may be asked again. `interrupted` counts an interruption: `expire` fails a job that
    has too many. Returns CANCELLED, and owes nothing, if a cancel was requested first. Raises ClaimLost.

    Locks: the lane (shared), then job and delivery.
    """
    waits_for = None if behind is None else _still_closed(session, *behind)
    row = _end(
        session,
        Event.RELEASE,
        claim,
        Outcome.RELEASED,
        counted=False,
        interruptions=Job.interruptions + (1 if interrupted else 0),
        facts={"reason": reason},
    )
    if row.state == State.QUEUED:
        due = session.execute(select(func.now() + seconds(wait_seconds))).scalar_one()
        outbox.owe(session, claim.job_id, row.queue, row.deliveries, not_before=due)
        if waits_for is not None:
            lanes.postpone_delivery(session, claim.job_id, *waits_for, spread_seconds=LANE_SPREAD_SECONDS)
    return State(row.state)


def _still_closed(session: Session, lane: str, seen: lanes.Closed) -> tuple[str, lanes.Closed] | None:
    # OPEN: the lane only had no free slot. Nothing opens such a lane, so there is no opener that could miss this job.
    closed = seen if seen.state is LaneState.OPEN else lanes.check_and_lock(session, lane)
    return None if closed is None else (lane, closed)


def _end(
    session: Session,
    event: Event,
    claim: Claim,
    outcome: Outcome,
    *,
    counted: bool,
    facts: Mapping[str, object] | None = None,
    **values: Any,
) -> Row[*tuple[Any, ...]]:
    """Change the job's state, release its claim, and close its attempt and the calls that the attempt left open.

    `counted` False: the attempt does not count towards `max_attempts`. `facts` are for the event. Raises ClaimLost.
    """
    row = change_state(
        session,
        event,
        claim.job_id,
        claim=claim,
        attempts=Job.attempts + (1 if counted else 0),
        **RELEASED_FIELDS,
        **values,
    )
    if row is None:
        raise ClaimLost
    state = State(row.state)
    if state is State.CANCELLED:
        outcome, facts = Outcome.CANCELLED, None
    elif state in TERMINAL:
        outbox.consume(session, claim.job_id)
    close_attempt(
        session, claim.job_id, claim.generation, outcome, values.get("error_category"), values.get("error_code")
    )
    close_open_calls(session, claim.job_id, CallOutcome.UNKNOWN)
    note(session, claim.job_id, event, state, row.generation, attempt=claim.attempt, **(facts or {}))
    return row


def cancel(session: Session, job_id: uuid.UUID, account_id: uuid.UUID) -> State | None:
    """Cancel the job of this owner: at once if no worker holds it, otherwise ask its worker to stop.

    Returns None if the job has ended or belongs to another account.
    """
    row = change_state(session, Event.CANCEL, job_id, Job.account_id == account_id, next_attempt_at=None)
    if row is None:
        return None
    state = State(row.state)
    if state is State.CANCELLED:
        outbox.consume(session, job_id)
    note(session, job_id, Event.CANCEL, state, row.generation)
    return state


def expire(
    session: Session, job_id: uuid.UUID, *, max_interruptions: int, renewal: RenewalTimes | None = None
) -> State | None:
    """Take a job back from a worker that has lost it, see `is_lost`, and raise the generation, so that it cannot write.

    Counts an interruption instead of an attempt. The first one costs no time; after that the job waits longer each
    time. A job that was being read becomes a suspect, which runs alone from then on. If its worker dies again while it
    is read alone, it fails as crashed at the second time; so does a job that has been interrupted more than
    `max_interruptions` times. One whose cancel was requested is cancelled. Returns None if the lease was renewed or the
    attempt ended in the meantime, or if another transaction has locked the job: the next sweep asks again.
    """
    locked = session.execute(
        select(Job.id).where(Job.id == job_id).with_for_update(key_share=True, skip_locked=True)
    ).scalar_one_or_none()
    if locked is None:
        return None
    # The first interruption costs no time, the second two seconds, and so on.
    wait = seconds(func.least(MAX_INTERRUPTED_SECONDS, func.power(2, Job.interruptions)))
    due = func.now() + case((Job.interruptions > 0, wait), else_=seconds(0))
    suspicions = Job.suspicions + case((was_read(), 0), else_=1)
    too_often = or_(suspicions > MAX_SUSPICIONS, Job.interruptions + 1 > max_interruptions)
    was_running = Job.state == State.RUNNING
    row = change_state(
        session,
        Event.EXPIRE,
        job_id,
        is_lost(renewal),
        then=(Event.FAIL, too_often),
        generation=Job.generation + 1,
        interruptions=Job.interruptions + 1,
        suspicions=suspicions,
        error_category=case((was_running, Category.CRASHED)),
        error_code=case((was_running & too_often, INTERRUPTED_TOO_OFTEN), (was_running, "worker_lost")),
        next_attempt_at=case((was_running & ~too_often, due)),
        **RELEASED_FIELDS,
    )
    if row is None:
        return None
    state = State(row.state)
    close_attempt(session, job_id, row.generation - 1, Outcome.LOST, Category.CRASHED)
    close_open_calls(session, job_id, CallOutcome.UNKNOWN)
    expired = State.RETRY_WAIT if state is State.FAILED else state
    note(session, job_id, Event.EXPIRE, expired, row.generation, interruptions=row.interruptions)
    if state is State.FAILED:
        facts = {"category": Category.CRASHED, "code": INTERRUPTED_TOO_OFTEN}
        note(session, job_id, Event.FAIL, state, row.generation, **facts)
    elif state is State.RETRY_WAIT:
        outbox.owe(session, job_id, row.queue, row.deliveries, not_before=row.next_attempt_at)
    return state


def fail_waiting(
    session: Session, job_id: uuid.UUID, *guards: ColumnElement[bool], category: Category, code: str | None = None
) -> State | None:
    """Fail a job that no worker holds, since its deadline has passed.

    Returns None if a worker holds the job, it has ended, or a guard is false.
    """
    row = change_state(
        session,
        Event.FAIL,
        job_id,
        Job.claimed_by.is_(None),
        *guards,
        error_category=category,
        error_code=code,
        next_attempt_at=None,
    )
    if row is None:
        return None
    outbox.consume(session, job_id)
    note(session, job_id, Event.FAIL, row.state, row.generation, category=category, code=code)
    return State(row.state)


def replay(
    session: Session,
    job_id: uuid.UUID,
    *,
    deadline_seconds: float,
    more_attempts: int,
    cause: str,
    by: str | None = None,
    replay_id: uuid.UUID | None = None,
    by_rule: bool = False,
    account_id: uuid.UUID | None = None,
) -> State | None:
    """Put a failed job back into the queue, with a new deadline and `more_attempts` on top of those made.

    `by_rule` says that the job was chosen by the cause of its failure, with others, and not by name. `account_id`
    restricts it to the jobs of one owner; None is for operators. `by` and `cause` are written to the job's events.
    Returns None if the job has not failed, if retention has deleted its content, or if it is another account's.
    """
    guards: list[ColumnElement[bool]] = [Job.content_deleted_at.is_(None)]
    if account_id is not None:
        guards.append(Job.account_id == account_id)
    row = change_state(
        session,
        Event.REPLAY,
        job_id,
        *guards,
        generation=Job.generation + 1,  # a worker that still shows an earlier claim must not end the job again
        deadline_at=func.clock_timestamp() + seconds(deadline_seconds),
        max_attempts=Job.attempts + more_attempts,
        interruptions=0,
        suspicions=0,
    )
    if row is None:
        return None
    outbox.owe(session, job_id, row.queue, row.deliveries)
    part_of = None if replay_id is None else replay_id.hex
    facts: dict[str, object] = {"cause": cause, "by": by, "replay": part_of, "rule": by_rule or None}
    note(session, job_id, Event.REPLAY, row.state, row.generation, **facts)
    return State(row.state)
