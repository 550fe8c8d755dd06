"""What a site does not keep for ever: after a time, what was handed in and what was made of it are deleted.

The records stay, without content: who, when, how it ended, what was measured. A job whose content was deleted is closed
history. It cannot be replayed, and the same wish handed in again is a new job, see `recording`.
"""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.calls import responses
from tasks.ledger.models import Checkpoint, Document, Job, Result, Submission

TITLE_OF_PASTED_TEXT = "Pasted text"
"""What such a job is called afterwards: its title was, as a rule, the first words of the text."""

_Condition = ColumnElement[bool]


def _past(days: int) -> tuple[_Condition, _Condition]:
    ended = func.now() - func.make_interval(0, 0, 0, days)
    return Job.content_deleted_at.is_(None), Job.finished_at < ended


def past_retention(session: Session, *, queue: str, limit: int, days: int) -> list[uuid.UUID]:
    """Jobs that ended more than `days` ago by the database's clock and still have their content, oldest first."""
    return list(
        session.execute(
            select(Job.id).where(Job.queue == queue, *_past(days)).order_by(Job.finished_at).limit(limit)
        ).scalars()
    )


def delete_content(session: Session, job_id: uuid.UUID, *, days: int) -> bool:
    """Delete what was made of the document for this job; and the document, unless another job about it has its content.

    False: it is unfinished (again), not old enough, gone, or somebody else was faster; nothing was deleted.
    """
    # The document before the job, as everybody locks them who needs both. Whoever records a new job about the document
    # locks it too, so what the last statement below sees of its jobs is all there is.
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
    responses.have_deleted(session, job_id)
    still_kept = select(Job.id).where(Job.document_id == document.id, Job.content_deleted_at.is_(None)).exists()
    session.execute(
        update(Document)
        .where(Document.id == document.id, ~still_kept)
        .values(content=None)
        .execution_options(synchronize_session=False)
    )
    return True
