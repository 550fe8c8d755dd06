"""Deletes what a user wants deleted: at once, also while a worker works on it.

That worker finds its claim lost and ends quietly. Nothing is written back, since every write needs the job's row.
"""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.calls import responses
from tasks.ledger.models import Document, Job, Result, Submission
from tasks.ledger.models.notifications import Notice
from tasks.ledger.notifications import preferences
from tasks.ledger.states import State


def jobs_about(session: Session, document_id: uuid.UUID, account_id: uuid.UUID) -> dict[State, int]:
    """Count the account's jobs about its document by state. States without a job are left out."""
    rows = session.execute(
        select(Job.state, func.count())
        .where(Job.document_id == document_id, Job.account_id == account_id)
        .group_by(Job.state)
    ).all()
    return {State(state): count for state, count in rows}


def results_about(session: Session, document_id: uuid.UUID, account_id: uuid.UUID) -> int:
    """Count the results for the account's document, without those that retention has deleted."""
    return session.execute(
        select(func.count())
        .select_from(Result)
        .join(Job, Job.id == Result.job_id)
        .where(Job.document_id == document_id, Job.account_id == account_id)
    ).scalar_one()


def delete_document(session: Session, document_id: uuid.UUID, account_id: uuid.UUID) -> int | None:
    """Delete a document with all its jobs, results and history, and return the number of jobs.

    Returns None if the account has no such document.
    """
    owned = session.execute(
        select(Document.id).where(Document.id == document_id, Document.account_id == account_id).with_for_update()
    ).scalar_one_or_none()
    if owned is None:
        return None
    # The lock on the document keeps new jobs about it from being accepted. It does not lock its jobs.
    jobs = _delete_jobs(session, Job.document_id == document_id)
    session.execute(delete(Document).where(Document.id == document_id))
    return jobs


def delete_account_content(session: Session, account_id: uuid.UUID) -> int:
    """Delete everything that the ledger keeps for an account, and return the number of jobs.

    The account itself belongs to the web part, and is deleted there.
    """
    # Lock order: documents before jobs, as in every function that locks both.
    session.execute(
        select(Document.id).where(Document.account_id == account_id).order_by(Document.id).with_for_update()
    )
    jobs = _delete_jobs(session, Job.account_id == account_id)
    session.execute(delete(Notice).where(Notice.account_id == account_id))
    preferences.delete_preferences(session, account_id)
    limits.delete_usage(session, account_id)
    session.execute(delete(Submission).where(Submission.account_id == account_id))
    session.execute(delete(Document).where(Document.account_id == account_id))
    return jobs


def _delete_jobs(session: Session, which: ColumnElement[bool]) -> int:
    """Lock and delete these jobs, in the order of their ids, and return their number.

    Responses that the AI provider still keeps for them are noted, and deleted there by the next sweep.
    """
    jobs = session.execute(select(Job.id).where(which).order_by(Job.id).with_for_update()).scalars().all()
    responses.note_left_responses(session, jobs)
    session.execute(delete(Job).where(Job.id.in_(jobs)))
    return len(jobs)
