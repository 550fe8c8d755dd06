"""Retention: deletes documents and results some days after their jobs ended.

The records stay, without content: who, when, how it ended, what was measured. A job whose content was deleted cannot be
replayed, and the same document handed in again with the same options is a new job, see `accept`.
"""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.calls import responses
from tasks.ledger.models import Checkpoint, Document, Job, Result, Submission

TITLE_OF_PASTED_TEXT = "Pasted text"
"""Replaces the title of a job about pasted text, since that title usually was the first words of the text."""

_Condition = ColumnElement[bool]


def _past(days: int) -> tuple[_Condition, _Condition]:
    """Return the SQL conditions that a job ended more than `days` days ago and still has its content."""
    limit = func.now() - func.make_interval(0, 0, 0, days)
    return Job.content_deleted_at.is_(None), Job.finished_at < limit


def past_retention(session: Session, *, queue: str, limit: int, days: int) -> list[uuid.UUID]:
    """Return the jobs that ended more than `days` days ago and still have their content, the earliest end first."""
    return list(
        session.execute(
            select(Job.id).where(Job.queue == queue, *_past(days)).order_by(Job.finished_at).limit(limit)
        ).scalars()
    )


def delete_content(session: Session, job_id: uuid.UUID, *, days: int) -> bool:
    """Delete what was made of the document for this job, and the document unless another job about it has its content.

    Returns False if nothing was deleted: the job is unfinished (again), not old enough or gone, or its content was
    deleted concurrently.
    """
    # Lock order: the document before the job, as in every function that locks both. A transaction that accepts a new
    # job about the document locks the document too (FOR KEY SHARE), so the last statement sees all jobs about it.
    document = session.execute(
        select(Document.id, Document.filename)
        .where(Document.id == select(Job.document_id).where(Job.id == job_id).scalar_subquery())
        .with_for_update()
    ).one_or_none()
    if document is None:
        return False
    pasted = {"title": TITLE_OF_PASTED_TEXT} if document.filename is None else {}
    deleted = session.execute(
        update(Job)
        .where(Job.id == job_id, *_past(days))
        .values(content_deleted_at=func.now(), revision=Job.revision + 1, options={}, **pasted)
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if deleted is None:
        return False
    session.execute(delete(Result).where(Result.job_id == job_id))
    session.execute(delete(Submission).where(Submission.job_id == job_id))
    session.execute(update(Checkpoint).where(Checkpoint.job_id == job_id).values(text=""))
    responses.note_content_deleted(session, job_id)
    still_kept = select(Job.id).where(Job.document_id == document.id, Job.content_deleted_at.is_(None)).exists()
    session.execute(
        update(Document)
        .where(Document.id == document.id, ~still_kept)
        .values(content=None)
        .execution_options(synchronize_session=False)
    )
    return True
