"""One job for operators: all its rows, without content. Opening the content takes a reason and adds an event."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.history.job_events import note
from tasks.ledger.models import Attempt, Checkpoint, Delivery, Document, Job, JobEvent, ProviderCall, Result
from tasks.ledger.states import READ_STEP, TRANSITIONS, Event

MAX_ROWS = 200
"""Limits attempts, calls and events to the newest. A job that was polled for hours has thousands of rows."""
MAX_CHARACTERS = 20_000
Row = TypeVar("Row", Attempt, ProviderCall, JobEvent)


@dataclass(frozen=True)
class Record:
    """A job with its rows, oldest first. `delivery` is None if none is owed. `content_kept`: it was not deleted yet."""

    job: Job
    now: Any
    kind: str
    size_bytes: int
    content_kept: bool
    delivery: Delivery | None
    attempts: Sequence[Attempt]
    calls: Sequence[ProviderCall]
    events: Sequence[JobEvent]


@dataclass(frozen=True)
class Opened:
    """The content of a job: its title, the beginning of the document's text, and the beginning of the result.

    `text` is None if it was not read yet or is deleted. `result` is None if there is none.
    """

    title: str
    text: str | None
    result: str | None


def record_of(session: Session, job_id: uuid.UUID) -> Record | None:
    """Return the job with its rows, of whatever account. Returns None if there is no such job."""
    row = session.execute(
        select(
            Job,
            func.now().label("now"),
            Document.kind,
            Document.size_bytes,
            Document.content.is_not(None).label("kept"),
        )
        .join(Document, Document.id == Job.document_id)
        .where(Job.id == job_id)
        .execution_options(populate_existing=True)
    ).one_or_none()
    if row is None:
        return None
    return Record(
        job=row.Job,
        now=row.now,
        kind=row.kind,
        size_bytes=row.size_bytes,
        content_kept=row.kept,
        delivery=session.get(Delivery, job_id, populate_existing=True),
        attempts=_newest(session, select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.generation.desc())),
        calls=_newest(
            session,
            select(ProviderCall)
            .where(ProviderCall.job_id == job_id)
            .order_by(ProviderCall.started_at.desc(), ProviderCall.id.desc()),
        ),
        events=_newest(session, select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.id.desc())),
    )


def _newest(session: Session, statement: Select[Row]) -> list[Row]:
    found = session.execute(statement.limit(MAX_ROWS).execution_options(populate_existing=True)).scalars()
    return list(found)[::-1]


def inspect(session: Session, job_id: uuid.UUID, *, by: str, cause: str) -> Opened | None:
    """Return the content of a job, and add an event that says which operator opened it and why.

    The state stays, but the revision grows, since the owner's page shows that the job was opened. Returns None if there
    is no such job.
    """
    row = session.execute(
        update(Job)
        .where(Job.id == job_id, Job.state.in_(list(TRANSITIONS[Event.INSPECT])))
        .values(revision=Job.revision + 1)
        .returning(Job.state, Job.generation, Job.title)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if row is None:
        return None
    note(session, job_id, Event.INSPECT, row.state, row.generation, by=by, cause=cause)
    text = select(func.left(Checkpoint.text, MAX_CHARACTERS)).where(
        Checkpoint.job_id == job_id, Checkpoint.step == READ_STEP
    )
    result = select(func.left(Result.text, MAX_CHARACTERS)).where(Result.job_id == job_id)
    return Opened(
        title=row.title,
        text=session.execute(text).scalar_one_or_none(),
        result=session.execute(result).scalar_one_or_none(),
    )
