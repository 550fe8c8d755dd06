"""Accepting a job: the job and the delivery it is owed, in one transaction. Identity is held by constraints."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.delivery import outbox
from tasks.ledger.history.job_events import note
from tasks.ledger.keys import fingerprint_of, operation_key_of
from tasks.ledger.models import Document, Job, Submission
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import Event, State
from tasks.ledger.terms import Terms


@dataclass(frozen=True)
class NewDocument:
    """What was handed in. `filename` is None for pasted text."""

    content: bytes
    kind: str
    filename: str | None


@dataclass(frozen=True)
class Intent:
    """What a person asks for, about a document. `fresh_run_key` makes the same wish a new one on purpose."""

    account_id: uuid.UUID
    title: str
    workflow: str
    workflow_version: int
    options: Mapping[str, Any]
    fresh_run_key: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class AcceptedJob:
    """The job an intent led to. `created` is False when it was there before."""

    job_id: uuid.UUID
    created: bool


class IdempotencyKeyReused(Exception):
    """The same idempotency key came with other content."""


class _KeyTaken(Exception):
    """Another request with the same idempotency key was faster; undo to the savepoint and read what it made."""


def accept_job(session: Session, intent: Intent, document: NewDocument, terms: Terms) -> AcceptedJob:
    """Accept the intent about a document that comes with it. Raises IdempotencyKeyReused and LimitReached; then nothing
    may be committed."""
    document_id = _keep_document(session, intent.account_id, document)
    return accept_job_for_document(session, intent, document_id, terms)


def accept_job_for_document(session: Session, intent: Intent, document_id: uuid.UUID, terms: Terms) -> AcceptedJob:
    """Accept the intent about a document that is already kept. Raises IdempotencyKeyReused, LimitReached, and
    NoResultFound when the document or its content has been deleted.
    """
    # The lock keeps retention from deleting the content before the new job is there to be seen.
    fingerprint = session.execute(
        select(Document.fingerprint)
        .where(Document.id == document_id, Document.content.is_not(None))
        .with_for_update(read=True, key_share=True)
    ).scalar_one()
    operation_key = _operation_key(intent, fingerprint)
    known = _find_existing_job(session, intent, operation_key)
    if known is not None:
        return known
    try:
        with session.begin_nested():
            recorded = _find_or_create(session, intent, document_id, fingerprint, terms)
            _remember_key(session, intent, operation_key, recorded.job_id)
            return recorded
    except _KeyTaken:
        known = _find_existing_job(session, intent, operation_key)
        assert known is not None, "the key was taken, so its row is committed and visible"
        return known


def _keep_document(session: Session, account_id: uuid.UUID, document: NewDocument) -> uuid.UUID:
    """One row per account and content. Content that retention had deleted comes back, since it was handed in again."""
    statement = upsert(Document).values(
        id=uuid.uuid4(),
        account_id=account_id,
        fingerprint=fingerprint_of(document.content, document.kind),
        filename=document.filename,
        kind=document.kind,
        size_bytes=len(document.content),
        content=document.content,
    )
    return session.execute(
        statement.on_conflict_do_update(
            constraint="one_document_per_account_and_content",
            set_={"content": func.coalesce(Document.content, statement.excluded.content)},
        ).returning(Document.id)
    ).scalar_one()


def _find_existing_job(session: Session, intent: Intent, operation_key: str) -> AcceptedJob | None:
    if intent.idempotency_key is None:
        return None
    row = session.execute(
        select(Submission.job_id, Submission.request_fingerprint).where(
            Submission.account_id == intent.account_id, Submission.idempotency_key == intent.idempotency_key
        )
    ).one_or_none()
    if row is None:
        return None
    if row.request_fingerprint != operation_key:
        raise IdempotencyKeyReused
    return AcceptedJob(row.job_id, created=False)


def _operation_key(intent: Intent, fingerprint: str) -> str:
    return operation_key_of(
        intent.account_id,
        fingerprint,
        intent.workflow,
        intent.workflow_version,
        intent.options,
        intent.fresh_run_key,
    )


def _find_or_create(
    session: Session, intent: Intent, document_id: uuid.UUID, fingerprint: str, terms: Terms
) -> AcceptedJob:
    while True:
        operation_key = _operation_key(intent, fingerprint)
        job_id = session.execute(
            upsert(Job)
            .values(
                id=uuid.uuid4(),
                account_id=intent.account_id,
                document_id=document_id,
                workflow=intent.workflow,
                workflow_version=intent.workflow_version,
                options=dict(intent.options),
                title=intent.title,
                operation_key=operation_key,
                fresh_run_key=intent.fresh_run_key,
                queue=terms.queue,
                max_attempts=terms.max_attempts,
                deadline_at=func.now() + seconds(terms.deadline_seconds),
            )
            .on_conflict_do_nothing(index_elements=[Job.operation_key], index_where=Job.state != State.CANCELLED)
            .returning(Job.id)
        ).scalar_one_or_none()
        if job_id is not None:
            # Only now is it known to be a new wish: the same one again is led to its job, whatever the limits.
            limits.require(session, intent.account_id, terms.limits, besides=job_id)
            limits.count_job(session, intent.account_id, job_id)
            outbox.owe(session, job_id)
            note(session, job_id, Event.RECORD, State.QUEUED, 0)
            return AcceptedJob(job_id, created=True)
        existing = session.execute(
            select(Job.id, Job.content_deleted_at).where(
                Job.operation_key == operation_key, Job.state != State.CANCELLED
            )
        ).one_or_none()
        if existing is not None and existing.content_deleted_at is None:
            return AcceptedJob(existing.id, created=False)
        if existing is not None:
            # It has nothing to show any more. What is asked for is made anew: once, since each closed job has one key
            # for what follows it, whoever asks and however often.
            intent = replace(intent, fresh_run_key=f"after {existing.id.hex}")
        # Otherwise it was cancelled between the two statements: the wish may be recorded now.


def _remember_key(session: Session, intent: Intent, operation_key: str, job_id: uuid.UUID) -> None:
    if intent.idempotency_key is None:
        return
    taken = session.execute(
        upsert(Submission)
        .values(
            account_id=intent.account_id,
            idempotency_key=intent.idempotency_key,
            request_fingerprint=operation_key,
            job_id=job_id,
        )
        .on_conflict_do_nothing()
        .returning(Submission.job_id)
    ).scalar_one_or_none()
    if taken is None:
        raise _KeyTaken
