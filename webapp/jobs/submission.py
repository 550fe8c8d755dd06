"""Accepting a wish, for pages and programs alike: one transaction, and then one attempt to send the message."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import AcceptedJob, Intent, accept_job, accept_job_for_document
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.workflows import WORKFLOWS, Options, OptionsWrong, Workflow
from tasks.workflows.base import check_options
from webapp.database import transaction
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.document_input import SubmittedDocument
from webapp.limits import within_limits
from webapp.services import services

log = structlog.get_logger()

LONGEST_KEY = 200
MOST_ROUNDS = 5
"""A job that has failed in so many rounds of attempts is not tried again at its owner's wish."""


def offered() -> list[Workflow]:
    """What can be asked for on this site: without an AI service, only what an extract will do for."""
    return [workflow for workflow in WORKFLOWS.values() if supports(workflow)]


def supports(workflow: Workflow) -> bool:
    return not workflow.needs_ai or services().settings.ai_provider != "local"


def workflow_of(name: str) -> Workflow:
    """The workflow of that name. Raises NotAccepted."""
    workflow = WORKFLOWS.get(name)
    if workflow is None:
        raise NotAccepted("workflow_unknown", messages.NO_SUCH_WORKFLOW, field="workflow")
    if not supports(workflow):
        raise NotAccepted("needs_ai", messages.needs_ai(workflow.title), field="workflow")
    return workflow


def options_of(workflow: Workflow, given: Mapping[str, object]) -> dict[str, Any]:
    """The checked options. Raises NotAccepted, whose field is the option's name."""
    try:
        return check_options(workflow, given)
    except OptionsWrong as wrong:
        option = next((one for one in workflow.choices if one.name == wrong.option), None)
        sentence = messages.option_wrong(option)
        raise NotAccepted("options_wrong", sentence, field=wrong.option or "options") from None


def options_in_form(workflow: Workflow, form: Mapping[str, str]) -> dict[str, Any]:
    """The options of a form that are this workflow's. Those of the others are there too, and do not count.

    A field is named for its workflow and its option, since two workflows may have an option of the same name.
    Raises NotAccepted, whose field is the form's.
    """
    fields = {option.name: f"{workflow.name}-{option.name}" for option in workflow.choices}
    try:
        return options_of(workflow, {name: form[at] for name, at in fields.items() if at in form})
    except NotAccepted as refused:
        raise NotAccepted(refused.code, refused.sentence, field=fields.get(refused.field, refused.field)) from None


def usable_key(text: str | None) -> str | None:
    """A client's key as it may be stored; None if there is none, or if it is no short printable word."""
    return text if text and len(text) <= LONGEST_KEY and text.isascii() and text.isprintable() else None


def submit(
    account_id: uuid.UUID,
    handed_in: SubmittedDocument,
    workflow: Workflow,
    options: Options,
    *,
    idempotency_key: str | None = None,
    fresh_run_key: str | None = None,
    with_new: Callable[[Session, uuid.UUID], None] | None = None,
) -> AcceptedJob:
    """Record the wish about a document that comes with it. Raises IdempotencyKeyReused and OverLimit.

    `with_new` is done in the same transaction when the job is a new one; if it raises, there is no job.
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
        recorded = accept_job(session, intent, handed_in.document, services().settings.terms)
        if recorded.created and with_new is not None:
            with_new(session, recorded.job_id)
    return _send(recorded)


def submit_again(account_id: uuid.UUID, job_id: uuid.UUID, *, fresh_run_key: str | None) -> AcceptedJob | None:
    """The same wish about the same document: a new job where the earlier one was cancelled or the key is fresh.

    None: there is no such job, or its document has been deleted. Raises NotAccepted when such work is no longer done,
    or when a limit is reached.
    """
    try:
        with within_limits(), transaction() as session:
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
    """Whether work like this job's is still done: an older job may name a workflow or an option that is gone."""
    workflow = WORKFLOWS.get(job.workflow)
    if workflow is None or not supports(workflow):
        return False
    try:
        check_options(workflow, job.options)
    except OptionsWrong:
        return False
    return True


def try_again(account_id: uuid.UUID, job_id: uuid.UUID) -> bool:
    """Put a failed job back, where the cause was a passing one. False if that is not offered, or no longer.

    It is not handed in anew, and so does not count for the day; the other limits hold. Raises OverLimit.
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
    """Whether the owner may put this job back: it failed, of a cause that may have passed, the document is kept, and
    not too many attempts were made already."""
    passed = job.state is State.FAILED and messages.is_passing(job.error_category)
    return passed and job.attempt < MOST_ROUNDS * services().settings.max_attempts and can_run_again(job)


def can_run_again(job: job_views.JobView) -> bool:
    """Whether the same may be wished anew about this job's document: nothing of the two has been deleted."""
    return job.original_kept and job.content_deleted_at is None and is_still_offered(job)


def _send(recorded: AcceptedJob) -> AcceptedJob:
    log.info("job.submitted", job=recorded.job_id.hex, created=recorded.created)
    if recorded.created:
        services().dispatcher.dispatch_now(recorded.job_id)
    return recorded
