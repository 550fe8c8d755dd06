"""Records provider calls: a row before the request, its outcome afterwards.

The outcome is `unknown` if the request may have reached the provider and no usable response came.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import func, insert, select, true, update
from sqlalchemy.dialects.postgresql import insert as insert_or
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.calls import lanes
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.errors import Category, JobError
from tasks.ledger.models import Job, JobEvent, LeftResponse, ProviderCall
from tasks.ledger.states import CallOutcome, Event, State

LOST_CALLS_ALLOWED = 1
"""Limits how many calls of a step may be lost without a response before its job fails: one is repeated once."""
CUT_OFF = "output_limit"  # the code of a call whose response was cut off by the provider's limit


@dataclass(frozen=True)
class CallReport:
    """The facts about a call that has ended. All but the outcome may be None: not reported, or not applicable."""

    outcome: CallOutcome
    category: Category | None = None
    code: str | None = None
    http_status: int | None = None
    request_id: str | None = None
    response_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class NewCall:
    """A call that is about to be made.

    `limit` is the maximum of calls in flight on its lane, over all workers. `probe_seconds` is the time after which the
    next call may probe if this one is a probe and gets no response. `background` True: the provider accepts the
    request, works on it without a connection, and is polled for the response.
    """

    step: str
    lane: str
    provider: str
    model: str
    limit: int
    probe_seconds: float
    background: bool = False


@dataclass(frozen=True)
class OpenResponse:
    """A background call that the provider still works on. `age_seconds` is by the database's clock."""

    call_id: uuid.UUID
    response_id: str
    age_seconds: float


def open_call(
    session: Session, job_id: uuid.UUID, generation: int, call: NewCall, call_id: uuid.UUID | None = None
) -> uuid.UUID | Closed | Full | None:
    """Insert the row of a call that is about to be made, if its lane allows the call, and return the call's id.

    Returns Closed or Full if the lane does not allow it. Returns None if the claim is lost or the job is to be
    cancelled. In all these cases the caller must not make the call. `call_id` None: a new id. If its row exists, the
    answer to an earlier commit was lost, and the call may be made. Raises JobError if this step was lost at the
    provider too often, see `LOST_CALLS_ALLOWED`.

    Locks the job FOR SHARE, so that the claim cannot change between this check and the commit, and then the lane.
    """
    allowed = session.execute(
        select(Job.id)
        .where(Job.id == job_id, Job.generation == generation, Job.state == State.RUNNING)
        .with_for_update(read=True)
    ).scalar_one_or_none()
    if allowed is None:
        return None
    call_id = call_id or uuid.uuid4()
    if session.execute(select(ProviderCall.id).where(ProviderCall.id == call_id)).one_or_none() is not None:
        return call_id
    if lost_calls(session, job_id, call.step) > LOST_CALLS_ALLOWED:
        raise JobError(Category.UNCERTAIN, "lost_again")
    closed = lanes.ask(session, call.lane, limit=call.limit, probe_seconds=call.probe_seconds)
    if closed is not None:
        return closed
    session.execute(
        insert(ProviderCall).values(
            id=call_id,
            job_id=job_id,
            generation=generation,
            step=call.step,
            lane=call.lane,
            provider=call.provider,
            model=call.model,
            background=call.background,
            started_at=func.clock_timestamp(),
        )
    )
    return call_id


def note_response(session: Session, call_id: uuid.UUID, response_id: str, lane: str) -> bool:
    """Record the id under which the provider took a background request; from now on it can be polled. Needs no claim.

    A call that was recorded as `unknown` in the meantime is open again. Returns False if the call has ended otherwise,
    or its row was deleted with the job: then the id is kept in `left_responses`, to be cancelled at the provider.
    """
    recorded = session.execute(
        update(ProviderCall)
        .where(ProviderCall.id == call_id, ProviderCall.outcome.in_([CallOutcome.OPEN, CallOutcome.UNKNOWN]))
        .values(response_id=response_id, outcome=CallOutcome.OPEN, ended_at=None, error_category=None, error_code=None)
        .returning(ProviderCall.id)
    ).all()
    if not recorded:
        session.execute(insert_or(LeftResponse).values(response_id=response_id, lane=lane).on_conflict_do_nothing())
    return bool(recorded)


def open_responses(session: Session, job_id: uuid.UUID) -> dict[str, OpenResponse]:
    """Return the job's calls that can still be polled, by step. Of several calls of a step, returns the oldest."""
    rows = session.execute(
        select(
            ProviderCall.step,
            ProviderCall.id,
            ProviderCall.response_id,
            func.extract("epoch", func.now() - ProviderCall.started_at),
        )
        .where(
            ProviderCall.job_id == job_id,
            ProviderCall.outcome == CallOutcome.OPEN,
            ProviderCall.response_id.is_not(None),
        )
        .order_by(ProviderCall.started_at.desc())
    ).all()
    return {row[0]: OpenResponse(row[1], str(row[2]), float(row[3])) for row in rows}


def close_call(session: Session, call_id: uuid.UUID, report: CallReport) -> bool:
    """Record how the call ended, and count its tokens for the owner of the job.

    This is a fact about the provider, so it needs no claim, and a call recorded as `unknown` may still be closed with
    its response. Returns False if the call was closed with another outcome before, or its row was deleted.
    """
    # Lock order: the job before its calls. The job's lock (FOR KEY SHARE) keeps job and account from being deleted
    # before the tokens are counted.
    owner = session.execute(
        select(Job.account_id)
        .join(ProviderCall, ProviderCall.job_id == Job.id)
        .where(ProviderCall.id == call_id)
        .with_for_update(read=True, key_share=True, of=Job)
    ).scalar_one_or_none()
    values = {
        "outcome": report.outcome,
        "ended_at": func.clock_timestamp(),
        "error_category": report.category,
        "error_code": report.code,
        "http_status": report.http_status,
        "request_id": report.request_id,
        "response_id": func.coalesce(report.response_id, ProviderCall.response_id),
        "input_tokens": report.input_tokens,
        "output_tokens": report.output_tokens,
    }
    if report.model is not None:
        values["model"] = report.model
    closed = session.execute(
        update(ProviderCall)
        .where(ProviderCall.id == call_id, ProviderCall.outcome.in_([CallOutcome.OPEN, CallOutcome.UNKNOWN]))
        .values(**values)
        .returning(ProviderCall.id)
    ).all()
    tokens = (report.input_tokens or 0) + (report.output_tokens or 0)
    if closed and owner is not None and tokens:
        limits.count_tokens(session, owner, tokens)
    return bool(closed)


def close_open_calls(session: Session, job_id: uuid.UUID, outcome: CallOutcome) -> int:
    """Close the calls that a previous claim left open, and return their number.

    A call with a response id stays open: the next attempt polls it, or it is cancelled at the provider after the job's
    end.
    """
    return len(
        session.execute(
            update(ProviderCall)
            .where(
                ProviderCall.job_id == job_id,
                ProviderCall.outcome == CallOutcome.OPEN,
                ProviderCall.response_id.is_(None),
            )
            .values(outcome=outcome, ended_at=func.now(), error_category=Category.UNCERTAIN)
            .returning(ProviderCall.id)
        ).all()
    )


def lost_calls(session: Session, job_id: uuid.UUID, step: str | None = None) -> int:
    """Count the calls of this step that may have been billed without a response. `step` None: the most of any step.

    The count begins again when a person puts this very job back. A replay of all jobs with some cause is no such
    decision.
    """
    by_a_person = JobEvent.facts["rule"].astext.is_(None)
    replayed = (
        select(func.max(JobEvent.generation))
        .where(JobEvent.job_id == job_id, JobEvent.event == Event.REPLAY, by_a_person)
        .scalar_subquery()
    )
    of_a_step = (
        select(func.count().label("lost"))
        .where(
            ProviderCall.job_id == job_id,
            ProviderCall.outcome == CallOutcome.UNKNOWN,
            ProviderCall.generation > func.coalesce(replayed, 0),
            true() if step is None else ProviderCall.step == step,
        )
        .group_by(ProviderCall.step)
        .subquery()
    )
    return int(session.execute(select(func.coalesce(func.max(of_a_step.c.lost), 0))).scalar_one())


def was_cut_off(session: Session, job_id: uuid.UUID, step: str) -> bool:
    """Return True if the provider's limit has cut off a response of this step before."""
    return session.execute(
        select(
            select(ProviderCall.id)
            .where(
                ProviderCall.job_id == job_id,
                ProviderCall.step == step,
                ProviderCall.outcome == CallOutcome.SUCCEEDED,
                ProviderCall.error_code == CUT_OFF,
            )
            .exists()
        )
    ).scalar_one()
