"""Accepts a job: writes the job and its first delivery in one transaction.

Unique constraints decide which requests are the same: `one_document_per_account_and_content` for documents,
`one_job_per_operation` for jobs, and the primary key of `submissions` for idempotency keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.compiled import CompiledStatement
from tasks.ledger.keys import fingerprint_of, operation_key_of
from tasks.ledger.models import Document, Job, Submission
from tasks.ledger.states import State
from tasks.ledger.terms import Terms


@dataclass(frozen=True)
class NewDocument:
    """A document that a user handed in. `filename` is None for pasted text."""

    content: bytes
    kind: str
    filename: str | None


@dataclass(frozen=True)
class Intent:
    """The work that a user requests for a document.

    `fresh_run_key` makes an intent that was accepted before a new one on purpose. `idempotency_key` is the client's own
    key for this request, None if it sent none.
    """

    account_id: uuid.UUID
    title: str
    workflow: str
    workflow_version: int
    options: Mapping[str, Any]
    fresh_run_key: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class AcceptedJob:
    """The job of an intent. `created` is False if it existed before."""

    job_id: uuid.UUID
    created: bool


class IdempotencyKeyReused(Exception):
    """Raised when an idempotency key comes a second time, with other content."""


class _KeyTaken(Exception):
    """Raised when a concurrent request with the same idempotency key committed first.

    The work since the savepoint is then rolled back, and the job of the other request is returned.
    """


def accept_job(session: Session, intent: Intent, document: NewDocument, terms: Terms) -> AcceptedJob:
    """Accept an intent together with its document.

    Raises IdempotencyKeyReused or LimitReached. The caller must then roll back.
    """
    # Keeping the document locks its row, so that retention cannot delete the content until this transaction ends.
    fingerprint = fingerprint_of(document.content, document.kind)
    document_id = _keep_document(session, intent.account_id, document, fingerprint)
    return _accept(session, intent, document_id, fingerprint, terms)


def accept_job_for_document(session: Session, intent: Intent, document_id: uuid.UUID, terms: Terms) -> AcceptedJob:
    """Accept an intent about a document that is already stored.

    Raises IdempotencyKeyReused, LimitReached, or NoResultFound if the document or its content has been deleted. The
    caller must then roll back.
    """
    # FOR KEY SHARE conflicts with the FOR UPDATE that retention takes on the document. So retention cannot delete the
    # content until this transaction ends, and then it sees the new job.
    fingerprint = session.execute(
        select(Document.fingerprint)
        .where(Document.id == document_id, Document.content.is_not(None))
        .with_for_update(read=True, key_share=True)
    ).scalar_one()
    return _accept(session, intent, document_id, fingerprint, terms)


def _accept(session: Session, intent: Intent, document_id: uuid.UUID, fingerprint: str, terms: Terms) -> AcceptedJob:
    """Accept an intent about a document whose row this transaction has locked."""
    if intent.idempotency_key is None:
        return _find_or_create(session, intent, document_id, fingerprint, terms)
    operation_key = _operation_key(intent, fingerprint)
    known = _find_existing_job(session, intent, operation_key)
    if known is not None:
        return known
    while True:
        try:
            with session.begin_nested():
                accepted = _find_or_create(session, intent, document_id, fingerprint, terms)
                _remember_key(session, intent, operation_key, accepted.job_id)
                return accepted
        except _KeyTaken:
            known = _find_existing_job(session, intent, operation_key)
            if known is not None:
                return known
            # The job that the key led to was deleted right after that, and the key with it.


def _keep_document(session: Session, account_id: uuid.UUID, document: NewDocument, fingerprint: str) -> uuid.UUID:
    """Store the document, or find the row with the same account and fingerprint, and return the row's id.

    If retention has deleted the content of that row, the content is filled in again.
    """
    statement = upsert(Document).values(
        id=uuid.uuid4(),
        account_id=account_id,
        fingerprint=fingerprint,
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
    """Return the job of an earlier request with the same idempotency key. Returns None if there is none.

    Raises IdempotencyKeyReused if the earlier request asked for something else.
    """
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
    """Return the job that has the intent's operation key, or create it.

    Each round tries to insert the job, and looks for the job that prevented it. Another round follows if that job was
    cancelled in between, or if retention has deleted its content.
    """
    while True:
        operation_key = _operation_key(intent, fingerprint)
        job_id = _insert_job(session, intent, document_id, operation_key, terms)
        if job_id is not None:
            limits.require(session, intent.account_id, terms.limits, except_job=job_id)
            return AcceptedJob(job_id, created=True)
        existing = _select_job(session, operation_key)
        if existing is None:
            continue  # it was cancelled between the two statements, so its key is free again
        job_id, content_deleted_at = existing
        if content_deleted_at is None:
            return AcceptedJob(job_id, created=False)
        # The job has nothing to show any more, so the work is done again. The new key is derived
        # from the old job, so that all requests for it, however many, lead to the same new job.
        intent = replace(intent, fresh_run_key=f"after {job_id.hex}")


_INSERT_JOB = CompiledStatement(
    text("""
    WITH job AS (
      INSERT INTO jobs (
        id, account_id, document_id, workflow, workflow_version, options, title, operation_key, fresh_run_key, queue,
        state, revision, generation, attempts, max_attempts, interruptions, deliveries, progress_done, progress_total,
        deadline_at
      ) VALUES (
        :id, :account_id, :document_id, :workflow, :workflow_version, :options, :title, :operation_key, :fresh_run_key,
        :queue, 'queued', 1, 0, 0, :max_attempts, 0, 1, 0, 0, now() + make_interval(secs => :deadline_seconds)
      )
      ON CONFLICT (operation_key) WHERE state <> 'cancelled' DO NOTHING
      RETURNING id, account_id, queue, state, generation
    ),
    delivery AS (
      INSERT INTO deliveries (job_id, queue, number, due_at, not_before, dispatches)
      SELECT id, queue, 1, now(), now(), 0 FROM job
    ),
    event AS (
      INSERT INTO events (job_id, event, state, generation, facts) SELECT id, 'record', state, generation, '{}' FROM job
    ),
    counted AS (
      INSERT INTO accepted_jobs (job_id, account_id) SELECT id, account_id FROM job
    ),
    no_longer_counted AS (
      DELETE FROM accepted_jobs WHERE job_id IN (
        SELECT job_id FROM accepted_jobs
        WHERE account_id = :account_id AND at <= now() - make_interval(secs => :day_seconds)
        FOR UPDATE SKIP LOCKED
      )
    )
    SELECT id FROM job
    """)
)


def _insert_job(
    session: Session, intent: Intent, document_id: uuid.UUID, operation_key: str, terms: Terms
) -> uuid.UUID | None:
    """Insert a job with its first delivery, event and count, unless one that is not cancelled has the operation key.

    Returns None if nothing was inserted. The unique index `one_job_per_operation` decides. While another transaction
    inserts the same key, this statement waits until that transaction ends. The limits are checked afterwards, because
    only the INSERT tells if the intent is new: one that was accepted before leads to its job even if a limit is
    reached.
    """
    job_id: uuid.UUID | None = _INSERT_JOB.execute(
        session,
        id=uuid.uuid4(),
        account_id=intent.account_id,
        document_id=document_id,
        workflow=intent.workflow,
        workflow_version=intent.workflow_version,
        options=Jsonb(dict(intent.options)),
        title=intent.title,
        operation_key=operation_key,
        fresh_run_key=intent.fresh_run_key,
        queue=terms.queue,
        max_attempts=terms.max_attempts,
        deadline_seconds=terms.deadline_seconds,
        day_seconds=limits.DAY_SECONDS,
    ).scalar_one_or_none()
    return job_id


def _select_job(session: Session, operation_key: str) -> tuple[uuid.UUID, datetime | None] | None:
    """Return id and `content_deleted_at` of the job that has this operation key. Returns None if it was cancelled."""
    row = session.execute(
        select(Job.id, Job.content_deleted_at).where(Job.operation_key == operation_key, Job.state != State.CANCELLED)
    ).one_or_none()
    return None if row is None else (row.id, row.content_deleted_at)


def _remember_key(session: Session, intent: Intent, operation_key: str, job_id: uuid.UUID) -> None:
    """Store the client's idempotency key with the job, if there is a key.

    Raises _KeyTaken if the key is stored already. As above, the INSERT waits for a transaction that is storing it.
    """
    if intent.idempotency_key is None:
        return
    stored = session.execute(
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
    if stored is None:
        raise _KeyTaken
