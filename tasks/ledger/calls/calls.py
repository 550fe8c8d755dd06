"""Provider calls: a row before the request, an outcome after it, and `unknown` for the answer that never came."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.calls import lanes
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.errors import Category
from tasks.ledger.models import Job, JobEvent, LeftResponse, ProviderCall
from tasks.ledger.states import CallOutcome, Event, State

CUT_OFF = "output_limit"  # the code of a call whose answer is not complete


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
    """A call about to be made. `limit` bounds the calls in the air over all workers, `probe_seconds` a probe's life.

    `background`: it is handed over, and asked about afterwards.
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
    """A call that the provider works on while nobody is connected. `age_seconds` by the database's clock."""

    call_id: uuid.UUID
    response_id: str
    age_seconds: float


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
            background=call.background,
        )
    )
    return call_id


def note_response(session: Session, call_id: uuid.UUID, response_id: str, lane: str) -> bool:
    """The provider took the request under this name: from now on it can be asked about. Needs no claim.

    A call taken for lost meanwhile is open again. False: its row is gone, since the job was deleted; the name is kept
    for the withdrawal at the provider.
    """
    noted = session.execute(
        update(ProviderCall)
        .where(ProviderCall.id == call_id, ProviderCall.outcome.in_([CallOutcome.OPEN, CallOutcome.UNKNOWN]))
        .values(response_id=response_id, outcome=CallOutcome.OPEN, ended_at=None, error_category=None, error_code=None)
        .returning(ProviderCall.id)
    ).all()
    if not noted:
        session.execute(insert_or(LeftResponse).values(response_id=response_id, lane=lane).on_conflict_do_nothing())
    return bool(noted)


def open_responses(session: Session, job_id: uuid.UUID) -> dict[str, OpenResponse]:
    """The job's calls that can still be asked about, by step; the oldest where a step has several."""
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
    """Record how the call ended. A fact about the provider, so it needs no claim, and a call once recorded as
    `unknown` may still learn its answer. Its tokens are counted for the owner. False if it was closed for good before.
    """
    # The job first, as everybody locks who needs both. Its lock keeps the owner from being deleted before the count.
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
    """Close what a past holder left open, and say how many calls that were.

    One whose response has a name stays open: the next attempt asks about it, or it is withdrawn after the job's end.
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


def unknown_calls(session: Session, job_id: uuid.UUID) -> int:
    """How many of the job's calls may have been billed without an answer reaching us."""
    return session.execute(
        select(func.count()).where(ProviderCall.job_id == job_id, ProviderCall.outcome == CallOutcome.UNKNOWN)
    ).scalar_one()


def lost_since_replay(session: Session, job_id: uuid.UUID, step: str) -> int:
    """How many calls of this step may have been billed without an answer, since somebody last said "try again"."""
    replayed = (
        select(func.max(JobEvent.generation))
        .where(JobEvent.job_id == job_id, JobEvent.event == Event.REPLAY)
        .scalar_subquery()
    )
    return session.execute(
        select(func.count()).where(
            ProviderCall.job_id == job_id,
            ProviderCall.step == step,
            ProviderCall.outcome == CallOutcome.UNKNOWN,
            ProviderCall.generation > func.coalesce(replayed, 0),
        )
    ).scalar_one()


def was_cut_off(session: Session, job_id: uuid.UUID, step: str) -> bool:
    """Whether an answer of this step has been cut off by the provider's limit before."""
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
