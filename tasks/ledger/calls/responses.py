"""Background responses that the provider still keeps but no job waits for: to be cancelled or deleted there."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.errors import Category
from tasks.ledger.models import Job, LeftResponse, ProviderCall
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import CallOutcome


@dataclass(frozen=True)
class KeptResponse:
    """A response at the provider. `call_id` None: its job was deleted, and with it the row of the call."""

    response_id: str
    call_id: uuid.UUID | None


def response_counts(session: Session, *, lane: str, overdue_seconds: float) -> tuple[int, int]:
    """Count the responses that are open at the provider, and those of them whose jobs ended too long ago.

    The second number counts the jobs that ended more than `overdue_seconds` ago.
    """
    open_now, overdue = session.execute(
        select(
            func.count(ProviderCall.id),
            func.count(ProviderCall.id).filter(Job.finished_at < func.now() - seconds(overdue_seconds)),
        )
        .join_from(ProviderCall, Job, Job.id == ProviderCall.job_id)
        .where(
            ProviderCall.lane == lane,
            ProviderCall.outcome == CallOutcome.OPEN,
            ProviderCall.response_id.is_not(None),
        )
    ).one()
    return int(open_now), int(overdue)


def to_cancel(session: Session, *, lane: str, limit: int) -> list[KeptResponse]:
    """Return responses that the provider may still work on although their job is finished.

    They come in random order, so that a few that cannot be cancelled do not hold up the others.
    """
    rows = session.execute(
        select(ProviderCall.response_id, ProviderCall.id)
        .join(Job, Job.id == ProviderCall.job_id)
        .where(
            ProviderCall.lane == lane,
            ProviderCall.outcome == CallOutcome.OPEN,
            ProviderCall.response_id.is_not(None),
            Job.finished_at.is_not(None),
        )
        .order_by(func.random())
        .limit(limit)
    ).all()
    return [KeptResponse(str(response_id), call_id) for response_id, call_id in rows]


def give_up_cancelling(session: Session, *, lane: str, after_seconds: float) -> int:
    """Close calls as unknown whose response could not be cancelled, and return their number.

    These are the calls of jobs that ended more than `after_seconds` ago.
    """
    return len(
        session.execute(
            update(ProviderCall)
            .where(
                ProviderCall.job_id == Job.id,
                ProviderCall.lane == lane,
                ProviderCall.outcome == CallOutcome.OPEN,
                ProviderCall.response_id.is_not(None),
                Job.finished_at < func.now() - seconds(after_seconds),
            )
            .values(
                outcome=CallOutcome.UNKNOWN,
                ended_at=func.now(),
                error_category=Category.UNCERTAIN,
                error_code="not_withdrawn",
            )
            .returning(ProviderCall.id)
            .execution_options(synchronize_session=False)
        ).all()
    )


def to_delete(session: Session, *, lane: str, younger_than_seconds: float, limit: int) -> list[KeptResponse]:
    """Return responses of closed calls that the provider has not deleted yet, in random order.

    A call is closed only after its response was saved, so it is no longer needed there.
    """
    rows = session.execute(
        select(ProviderCall.response_id, ProviderCall.id)
        .where(
            ProviderCall.lane == lane,
            ProviderCall.background,
            ProviderCall.response_id.is_not(None),
            ProviderCall.response_deleted_at.is_(None),
            ProviderCall.outcome != CallOutcome.OPEN,
            ProviderCall.started_at > func.now() - seconds(younger_than_seconds),
        )
        .order_by(func.random())
        .limit(limit)
    ).all()
    return [KeptResponse(str(response_id), call_id) for response_id, call_id in rows]


def note_deleted(session: Session, call_id: uuid.UUID) -> None:
    """Record that the provider has deleted the response of this call."""
    session.execute(update(ProviderCall).where(ProviderCall.id == call_id).values(response_deleted_at=func.now()))


def note_left_responses(session: Session, jobs: Sequence[uuid.UUID]) -> None:
    """Delete the calls of these jobs, and keep the ids of the responses that the provider still has.

    Call it before the jobs are deleted, with the jobs locked. The calls are deleted here and not by cascade, because
    this DELETE waits for a transaction that is just recording a response id, and returns that id.
    """
    rows = session.execute(
        delete(ProviderCall)
        .where(ProviderCall.job_id.in_(jobs))
        .returning(
            ProviderCall.response_id, ProviderCall.lane, ProviderCall.background, ProviderCall.response_deleted_at
        )
        .execution_options(synchronize_session=False)
    ).all()
    left = [
        {"response_id": response_id, "lane": lane}
        for response_id, lane, background, deleted_at in rows
        if background and response_id is not None and deleted_at is None
    ]
    if left:
        session.execute(insert(LeftResponse).on_conflict_do_nothing(), left)


def note_content_deleted(session: Session, job_id: uuid.UUID) -> None:
    """Note the responses of a finished job whose content was deleted, to be deleted at the provider. The calls stay."""
    kept = select(ProviderCall.response_id, ProviderCall.lane).where(
        ProviderCall.job_id == job_id,
        ProviderCall.background,
        ProviderCall.response_id.is_not(None),
        ProviderCall.response_deleted_at.is_(None),
    )
    session.execute(insert(LeftResponse).from_select(["response_id", "lane"], kept).on_conflict_do_nothing())


def left_behind(session: Session, *, lane: str, limit: int) -> list[KeptResponse]:
    """Return responses whose job, or the content of it, was deleted here, in random order."""
    rows = session.execute(
        select(LeftResponse.response_id).where(LeftResponse.lane == lane).order_by(func.random()).limit(limit)
    ).scalars()
    return [KeptResponse(response_id, None) for response_id in rows]


def note_left_deleted(session: Session, response_id: str) -> None:
    """Record that the provider has deleted a response whose job was deleted here."""
    session.execute(delete(LeftResponse).where(LeftResponse.response_id == response_id))


def give_up_deleting_left(session: Session, *, lane: str, after_seconds: float) -> int:
    """Delete the notes of responses that the provider has not deleted for `after_seconds`, and return their number."""
    return len(
        session.execute(
            delete(LeftResponse)
            .where(
                LeftResponse.lane == lane,
                LeftResponse.left_at < func.now() - seconds(after_seconds),
            )
            .returning(LeftResponse.response_id)
        ).all()
    )
