"""Submits jobs, for the pages and the API: one transaction, and then one try to send the message to the queue."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import structlog
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import AcceptedJob, Intent, accept_job, accept_job_for_document
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.workflows import WORKFLOWS, InvalidOptions, Options, Workflow
from tasks.workflows.base import check_options
from webapp.auth.accounts import lock_against_deletion
from webapp.database import transaction
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.document_input import SubmittedDocument
from webapp.jobs.parsing import supports
from webapp.limits import within_limits
from webapp.services import services

log = structlog.get_logger()

MAX_KEY_LENGTH = 200
MAX_ROUNDS = 5
"""The owner cannot try a job again once it has failed in this many rounds of attempts."""


def usable_key(text: str | None) -> str | None:
    """Return a client's key if it can be stored; None if there is none, or if it is long or not printable ASCII."""
    return text if text and len(text) <= MAX_KEY_LENGTH and text.isascii() and text.isprintable() else None


def submit(
    account_id: uuid.UUID,
    handed_in: SubmittedDocument,
    workflow: Workflow,
    options: Options,
    *,
    idempotency_key: str | None = None,
    fresh_run_key: str | None = None,
    on_created: Callable[[Session, uuid.UUID], None] | None = None,
) -> AcceptedJob:
    """Submit a document and return its job. Raises IdempotencyKeyReused and OverLimit.

    `on_created` is called in the same transaction if the job is new; if it raises, no job is created.
    """
    intent = Intent(
        account_id=account_id,
        title=handed_in.title,
        workflow=workflow.name,
        workflow_version=workflow.version,
        options=options,
        fresh_run_key=fresh_run_key,
        idempotency_key=idempotency_key,
    )
    with within_limits(), transaction() as session:
        lock_against_deletion(session, account_id)
        recorded = accept_job(session, intent, handed_in.document, services().settings.terms)
        if recorded.created and on_created is not None:
            on_created(session, recorded.job_id)
    return _send(recorded)


def submit_again(account_id: uuid.UUID, job_id: uuid.UUID, *, fresh_run_key: str | None) -> AcceptedJob | None:
    """Submit the same document again with the same options.

    Creates a new job if the earlier one was cancelled or the key is new. Returns None if there is no such job, or if
    its document has been deleted. Raises NotAccepted if the workflow is no longer offered, or if a limit is reached.
    """
    try:
        with within_limits(), transaction() as session:
            lock_against_deletion(session, account_id)
            job = job_views.job_of(session, job_id, account_id)
            if job is None or not job.original_kept or job.content_deleted_at is not None:
                return None
            if not is_still_offered(job):
                raise NotAccepted("no_longer_offered", messages.NO_LONGER_OFFERED, field="workflow", status=409)
            workflow = WORKFLOWS[job.workflow]
            intent = Intent(
                account_id=account_id,
                title=job.title,
                workflow=workflow.name,
                workflow_version=workflow.version,
                options=check_options(workflow, job.options),
                fresh_run_key=fresh_run_key,
            )
            recorded = accept_job_for_document(session, intent, job.document_id, services().settings.terms)
    except (NoResultFound, IntegrityError):  # the owner deleted the document between two of our statements
        return None
    return _send(recorded)


def is_still_offered(job: job_views.JobView) -> bool:
    """Return True if this job's workflow and options are still offered: those of an older job may have been removed."""
    workflow = WORKFLOWS.get(job.workflow)
    if workflow is None or not supports(workflow):
        return False
    try:
        check_options(workflow, job.options)
    except InvalidOptions:
        return False
    return True


def try_again(account_id: uuid.UUID, job_id: uuid.UUID) -> bool:
    """Put a failed job back if its cause was a temporary one. Returns False if that is not possible, or no longer.

    The document is not submitted a second time, so it does not count towards the daily limit. The other limits hold.
    Raises OverLimit.
    """
    settings = services().settings
    with within_limits(), transaction() as session:
        job = job_views.job_of(session, job_id, account_id)
        if job is None or not can_try_again(job):
            return False
        limits.require(session, account_id, settings.limits, of=(Limit.JOBS_AT_ONCE, Limit.TOKENS_PER_MONTH))
        state = transitions.replay(
            session,
            job_id,
            deadline_seconds=settings.job_deadline_seconds,
            more_attempts=settings.max_attempts,
            cause=messages.OWNER_TRIES_AGAIN,
            account_id=account_id,
        )
    if state is None:
        return False
    services().dispatcher.dispatch_now(job_id)
    return True


def can_try_again(job: job_views.JobView) -> bool:
    """Return True if the owner may put this job back.

    It must have failed of a cause that may be over, its document must be kept, and too many attempts must not have been
    made already.
    """
    may_pass = job.state is State.FAILED and messages.is_passing(job.error_category)
    return may_pass and job.attempt < MAX_ROUNDS * services().settings.max_attempts and can_run_again(job)


def can_run_again(job: job_views.JobView) -> bool:
    """Return True if this job's document can be submitted again: neither it nor the job's content has been deleted."""
    return job.original_kept and job.content_deleted_at is None and is_still_offered(job)


def _send(recorded: AcceptedJob) -> AcceptedJob:
    log.info("job.submitted", job=recorded.job_id.hex, created=recorded.created)
    if recorded.created:
        services().dispatcher.dispatch_now(recorded.job_id)
    return recorded
