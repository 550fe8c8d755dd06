"""Deleting what a person wants gone: at once, also while somebody works on it.

A worker in the middle of it finds its claim lost and ends quietly; nothing comes back, since every write is guarded by
the row that is gone.
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
    """How many jobs of the account there are about its document, by state; states without one are left out."""
    rows = session.execute(
        select(Job.state, func.count())
        .where(Job.document_id == document_id, Job.account_id == account_id)
        .group_by(Job.state)
    ).all()
    return {State(state): count for state, count in rows}


def results_about(session: Session, document_id: uuid.UUID, account_id: uuid.UUID) -> int:
    """How many results there are of the account's document; those that retention deleted are none."""
    return session.execute(
        select(func.count())
        .select_from(Result)
        .join(Job, Job.id == Result.job_id)
        .where(Job.document_id == document_id, Job.account_id == account_id)
    ).scalar_one()


def delete_document(session: Session, document_id: uuid.UUID, account_id: uuid.UUID) -> int | None:
    """Delete a document with all its jobs, summaries and history. How many jobs that were; None: not theirs."""
    owned = session.execute(
        select(Document.id).where(Document.id == document_id, Document.account_id == account_id).with_for_update()
    ).scalar_one_or_none()
    if owned is None:
        return None
    # The document's own lock only keeps a new job from being recorded about it.
    jobs = _forget_jobs(session, Job.document_id == document_id)
    session.execute(delete(Document).where(Document.id == document_id))
    return jobs


def delete_account_content(session: Session, account_id: uuid.UUID) -> int:
    """Delete everything the ledger keeps for an account. How many jobs that were. The account itself is the web's."""
    # Documents before jobs, as everybody locks them who needs both.
    session.execute(
        select(Document.id).where(Document.account_id == account_id).order_by(Document.id).with_for_update()
    )
    jobs = _forget_jobs(session, Job.account_id == account_id)
    session.execute(delete(Notice).where(Notice.account_id == account_id))
    preferences.delete_preferences(session, account_id)
    limits.forget_account(session, account_id)
    session.execute(delete(Submission).where(Submission.account_id == account_id))
    session.execute(delete(Document).where(Document.account_id == account_id))
    return jobs


def _forget_jobs(session: Session, which: ColumnElement[bool]) -> int:
    """Delete these jobs; what the AI provider still has of them is deleted there by the next sweep. How many."""
    jobs = session.execute(select(Job.id).where(which).order_by(Job.id).with_for_update()).scalars().all()
    responses.leave_behind(session, jobs)
    session.execute(delete(Job).where(Job.id.in_(jobs)))
    return len(jobs)
