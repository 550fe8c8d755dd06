"""Downloads of a job's result and original document, and deletion of the document."""

from __future__ import annotations

import uuid

from flask import Blueprint, abort, flash, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from flask_login import login_required

from tasks.i18n import _
from tasks.ledger.jobs import deletion
from tasks.ledger.models import Result
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import HELD
from tasks.workflows import WORKFLOWS, AsCsv
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http.downloads import attachment
from webapp.jobs import messages
from webapp.jobs.deletion import delete_document_of_job
from webapp.jobs.results.docx import as_word
from webapp.jobs.results.localized import shown
from webapp.jobs.results.plain_text import as_text
from webapp.jobs.results.provenance import provenance_of
from webapp.jobs.workflow_messages import title_of

documents = Blueprint("documents", __name__)

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@documents.get("/jobs/<uuid:job_id>/result.md")
@login_required  # type: ignore[untyped-decorator]
def result(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the result as Markdown; 404 until there is one, 410 once it has been deleted."""
    job, saved = _saved(job_id)
    text = shown(job.workflow, saved).text.encode()
    return attachment(text, f"{result_name(job)}.md", "text/markdown; charset=utf-8")


@documents.get("/jobs/<uuid:job_id>/result.txt")
@login_required  # type: ignore[untyped-decorator]
def result_as_text(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the result as plain text."""
    job, saved = _saved(job_id)
    text = as_text(shown(job.workflow, saved).text).encode()
    return attachment(text, f"{result_name(job)}.txt", "text/plain; charset=utf-8")


@documents.get("/jobs/<uuid:job_id>/result.docx")
@login_required  # type: ignore[untyped-decorator]
def result_as_word(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the result as a Word document, with how it was made in small print."""
    job, saved = _saved(job_id)
    title, text = result_name(job), shown(job.workflow, saved).text
    document = as_word(text, title=title, notes=provenance_of(job, saved.facts))
    return attachment(document, f"{title}.docx", WORD)


@documents.get("/jobs/<uuid:job_id>/result.csv")
@login_required  # type: ignore[untyped-decorator]
def result_as_csv(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the result as CSV if it is a table, else 404.

    The file starts with a byte-order mark, because Excel garbles every accented letter without it.
    """
    job, saved = _saved(job_id)
    workflow = WORKFLOWS.get(job.workflow)
    if not isinstance(workflow, AsCsv):
        abort(404)
    table = workflow.csv(saved.text).encode("utf-8-sig")
    return attachment(table, f"{result_name(job)}.csv", "text/csv; charset=utf-8")


def result_name(job: JobView) -> str:
    """Return the file name of a job's result, without an ending."""
    return _("%(work)s of %(document)s", work=title_of(job.workflow), document=job.title)


def _saved(job_id: uuid.UUID) -> tuple[JobView, Result]:
    """Return the user's job and its result. Aborts with 404 if one is missing, with 410 if the result was deleted."""
    with transaction() as database:
        job = job_views.job_of(database, job_id, current_account().id)
        saved = job_views.result_of(database, job_id, current_account().id)
    if job is None or saved is None:
        abort(410 if job is not None and job.content_deleted_at else 404)
    return job, saved


@documents.get("/jobs/<uuid:job_id>/original")
@login_required  # type: ignore[untyped-decorator]
def original(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the document byte for byte; 410 once it has been deleted. Browsers save it and never open it as a page."""
    with transaction() as database:
        job = job_views.job_of(database, job_id, current_account().id)
        document = job_views.original_of(database, job_id, current_account().id)
    if job is None or document is None:
        abort(404)
    if document.content is None:
        abort(410)
    return attachment(document.content, document.filename or f"{job.title}.txt", "application/octet-stream")


@documents.get("/jobs/<uuid:job_id>/delete")
@login_required  # type: ignore[untyped-decorator]
def ask_to_delete(job_id: uuid.UUID) -> ResponseReturnValue:
    """Ask for confirmation and show what will be deleted."""
    with transaction() as database:
        job = job_views.job_of(database, job_id, current_account().id)
        about = {} if job is None else deletion.jobs_about(database, job.document_id, current_account().id)
        saved = 0 if job is None else deletion.results_about(database, job.document_id, current_account().id)
    if job is None:
        abort(404)
    return render_template(
        "jobs/confirm_delete.html",
        job=job,
        jobs=sum(about.values()),
        saved=saved,
        worked_on=any(state in HELD for state in about),
    )


@documents.post("/jobs/<uuid:job_id>/delete")
@login_required  # type: ignore[untyped-decorator]
def delete(job_id: uuid.UUID) -> ResponseReturnValue:
    """Delete the document of this job, with all its jobs."""
    if not delete_document_of_job(job_id, current_account().id):
        abort(404)
    flash(str(messages.DOCUMENT_DELETED))
    return redirect(url_for("jobs.home"), 303)
