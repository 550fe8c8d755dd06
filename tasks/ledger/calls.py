"""Provider calls: a row before the request, an outcome after it, and `unknown` for the answer that never came."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from tasks.ledger import lanes
from tasks.ledger.errors import Category
from tasks.ledger.lanes import Closed, Full
from tasks.ledger.models import Job, ProviderCall
from tasks.ledger.states import CallOutcome, State


@dataclass(frozen=True)
class CallReport:
    """What is known of a call that ended. Everything but the outcome may be None: not reported, or not applicable."""

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
    """A call about to be made. `limit` bounds the calls in the air over all workers, `probe_seconds` a probe's life."""

    step: str
    lane: str
    provider: str
    model: str
    limit: int
    probe_seconds: float


def open_call(session: Session, job_id: uuid.UUID, generation: int, call: NewCall) -> uuid.UUID | Closed | Full | None:
    """Write the call down before it is made, if its lane lets it through.

    None: the claim is gone or the job is to be cancelled, so make no call. The job row is share-locked, so that the
    claim cannot change hands between this look and the commit.
    """
    allowed = session.execute(
        select(Job.id)
        .where(Job.id == job_id, Job.generation == generation, Job.state == State.RUNNING)
        .with_for_update(read=True)
    ).scalar_one_or_none()
    if allowed is None:
        return None
    closed = lanes.ask(session, call.lane, limit=call.limit, probe_seconds=call.probe_seconds)
    if closed is not None:
        return closed
    call_id = uuid.uuid4()
    session.execute(
        insert(ProviderCall).values(
            id=call_id,
            job_id=job_id,
            generation=generation,
            step=call.step,
            lane=call.lane,
            provider=call.provider,
            model=call.model,
        )
    )
    return call_id


def close_call(session: Session, call_id: uuid.UUID, report: CallReport) -> bool:
    """Record how the call ended. A fact about the provider, so it needs no claim, and a call once recorded as
    `unknown` may still learn its answer. False if it was closed for good before."""
    values = {
        "outcome": report.outcome,
        "ended_at": func.clock_timestamp(),
        "error_category": report.category,
        "error_code": report.code,
        "http_status": report.http_status,
        "request_id": report.request_id,
        "response_id": report.response_id,
        "input_tokens": report.input_tokens,
        "output_tokens": report.output_tokens,
    }
    if report.model is not None:
        values["model"] = report.model
    return bool(
        session.execute(
            update(ProviderCall)
            .where(ProviderCall.id == call_id, ProviderCall.outcome.in_([CallOutcome.OPEN, CallOutcome.UNKNOWN]))
            .values(**values)
            .returning(ProviderCall.id)
        ).all()
    )


def close_open_calls(session: Session, job_id: uuid.UUID, outcome: CallOutcome) -> int:
    """Close what a past holder left open, and say how many calls that were."""
    return len(
        session.execute(
            update(ProviderCall)
            .where(ProviderCall.job_id == job_id, ProviderCall.outcome == CallOutcome.OPEN)
            .values(outcome=outcome, ended_at=func.now(), error_category=Category.UNCERTAIN)
            .returning(ProviderCall.id)
        ).all()
    )


def unknown_calls(session: Session, job_id: uuid.UUID) -> int:
    """How many of the job's calls may have been billed without an answer reaching us."""
    return session.execute(
        select(func.count()).where(ProviderCall.job_id == job_id, ProviderCall.outcome == CallOutcome.UNKNOWN)
    ).scalar_one()
