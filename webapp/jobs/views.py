"""The pages on which users submit documents and follow their jobs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from flask import Blueprint, Response, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_required
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]
from werkzeug.exceptions import RequestEntityTooLarge

from tasks.i18n import lazy
from tasks.ledger.delivery import gate
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import IdempotencyKeyReused
from tasks.ledger.states import WAITING, State
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import form_fields, request_body
from webapp.http.errors import form_too_old, not_found
from webapp.http.htmx import is_htmx
from webapp.http.rejection import NotAccepted
from webapp.jobs import deadlines, job_list, messages, polling
from webapp.jobs.batch import MAX_FILES, BatchItem, submit_each
from webapp.jobs.parsing import fields_of_form, offered, parse_submission
from webapp.jobs.status import StatusPage, build_status_page
from webapp.jobs.submission import (
    is_still_offered,
    submit,
    submit_again,
    try_again,
    usable_key,
)
from webapp.limits import OverLimit, my_limits
from webapp.services import services

jobs = Blueprint("jobs", __name__)

DOUBLE_CLICK_SECONDS = 10
"""A job that is submitted again this soon was sent by a double click, and needs no notice."""
TOO_LATE = lazy("The job had already finished, so there was nothing to cancel.")
NOT_AGAIN = lazy("This can’t be tried again as it is. See below what you can do.")


@jobs.get("/")
@login_required  # type: ignore[untyped-decorator]
def home() -> ResponseReturnValue:
    """Show the form, and the documents submitted so far."""
    return home_page()


def home_page(
    errors: Mapping[str, object] | None = None,
    notice: str | None = None,
    refused: Sequence[tuple[str, object]] = (),
    done: Sequence[str] = (),
) -> str:
    """Render the first page: the form values kept, each error beside its field, each refused file with its reason."""
    settings = services().settings
    typed = request_body.typed()
    return render_template(
        "jobs/home.html",
        mine=job_list.asked_for() if current_user.is_authenticated else None,
        shown=job_list.SHOWN,
        paused=messages.PAUSED_SITE if current_user.is_authenticated and _is_paused() else None,
        limits=my_limits() if current_user.is_authenticated else None,
        badges=messages.BADGES,
        workflows=offered(),
        chosen=_chosen(typed.get("workflow")),
        typed=typed,
        done=[*get_flashed_messages(), *done],
        errors=errors or {},
        refused=refused,
        notice=notice,
        idempotency_key=str(uuid.uuid4()),
        most_at_once=MAX_FILES,
        too_large=messages.file_too_large(settings.max_upload_bytes),
        too_many=messages.too_many_files(MAX_FILES),
        settings=settings,
    )


def _is_paused() -> bool:
    with transaction() as database:
        return gate.load(database, services().settings.queue_name).is_paused


@jobs.get("/jobs/mine")
def mine() -> ResponseReturnValue:
    """Return the list alone, for the page that polls it; 204 while nothing has changed."""
    if job_list.is_unchanged(request.args.get("mark")):
        return Response(status=204)
    response: ResponseReturnValue = _changed_list()
    return response


@login_required  # type: ignore[untyped-decorator]
def _changed_list() -> ResponseReturnValue:
    listed = job_list.asked_for()
    if listed.mark == request.args.get("mark"):
        return Response(status=204)
    announce = request.args.get("said") != listed.said
    return render_template("jobs/_job_list.html", mine=listed, badges=messages.BADGES, announce=announce)


def _chosen(name: str | None) -> str:
    """Return the workflow that is selected on the form: the requested one if it is offered, else the first."""
    names = [workflow.name for workflow in offered()]
    return name if name in names else names[0]


@jobs.post("/jobs")
@login_required  # type: ignore[untyped-decorator]
def create() -> ResponseReturnValue:
    """Accept a document, or several files with a job for each. The same form sent again leads to the same jobs."""
    key = usable_key(request.form.get("idempotency_key"))
    try:
        fields = fields_of_form(request.form, request.files)
        submission = parse_submission(fields, services().settings, max_files=MAX_FILES)
        if submission.document is None:
            return _several(submit_each(current_account().id, submission, key))
        recorded = submit(
            current_account().id, submission.document, submission.workflow, submission.options, idempotency_key=key
        )
    except NotAccepted as refusal:
        if _by_script():
            return {"error": refusal.message, **refusal.facts}, refusal.status, refusal.headers
        return home_page({refusal.field: refusal.shown_message}), refusal.status, refusal.headers
    except IdempotencyKeyReused:
        return ({"error": str(messages.KEY_REUSED)} if _by_script() else home_page(notice=messages.KEY_REUSED)), 409
    known = None if recorded.created else 1
    location = url_for("jobs.show", job_id=recorded.job_id, known=known)
    return ({"location": location}, 201) if _by_script() else redirect(location, 303)


def _several(outcomes: Sequence[BatchItem]) -> ResponseReturnValue:
    """Redirect to the list if every file was accepted, else return the form with the reason for each refused file."""
    taken = sum(item.refusal is None for item in outcomes)
    message = messages.handed_in(taken)
    if taken == len(outcomes):
        flash(message)
        return redirect(url_for("jobs.home"), 303)
    refused = [(item.name, item.refusal) for item in outcomes if item.refusal is not None]
    return home_page(refused=refused, done=[message] if taken else ()), 422


def _by_script() -> bool:
    """Return True if the page's own script sends the file. It shows the progress and expects the job's URL as JSON."""
    return request.accept_mimetypes.best == "application/json"


@jobs.errorhandler(CSRFError)
def keep_what_was_typed(error: CSRFError) -> ResponseReturnValue:
    """Return a form whose CSRF token has expired as a new form, with the text still in it."""
    if is_htmx() or request.endpoint != "jobs.create":
        return form_too_old(error)
    message = messages.FORM_TOO_OLD if current_user.is_authenticated else messages.SIGNED_OUT
    if _by_script():
        return {"error": str(message), "form_too_old": True}, 400
    had_file = any(file.filename for file in request.files.values())
    return home_page({"file": messages.FORM_TOO_OLD_FILE} if had_file else {}, notice=message), 400


@jobs.errorhandler(RequestEntityTooLarge)
def too_large(error: RequestEntityTooLarge) -> ResponseReturnValue:
    """Return the form with its values, but without the files, because the request was too large."""
    message = messages.request_too_large(services().settings.max_upload_bytes)
    return ({"error": message} if _by_script() else home_page({"file": message})), 413


def page_or_404(job_id: uuid.UUID) -> StatusPage:
    """Return the user's job. Aborts with 404 if there is none, also for a job of another account."""
    page = _page_in_time(job_id)
    if page is None:
        abort(404)
    return page


def _page_in_time(job_id: uuid.UUID) -> StatusPage | None:
    """Return the user's job, which is ended first if its deadline has passed. None if there is no such job."""
    page = _page(job_id)
    return _page(job_id) if page is not None and deadlines.enforce([page.job]) else page


def _page(job_id: uuid.UUID) -> StatusPage | None:
    settings = services().settings
    with_cost = settings.show_cost_to_owner or current_account().is_operator
    with transaction() as database:
        return build_status_page(database, job_id, current_account().id, settings, with_cost=with_cost)


@jobs.get("/jobs/<uuid:job_id>")
@login_required  # type: ignore[untyped-decorator]
def show(job_id: uuid.UUID) -> ResponseReturnValue:
    """Show a job: its state, its log, and its result once there is one."""
    page = page_or_404(job_id)
    # The second request of a double click is redirected here too, and needs no notice.
    known = "known" in request.args and (page.job.now - page.job.created_at).total_seconds() > DOUBLE_CLICK_SECONDS
    return job_page(page, messages.HANDED_IN_BEFORE if known else None)


def job_page(page: StatusPage, notice: object | None = None) -> str:
    return render_template("jobs/show.html", page=page, job=page.job, notice=notice, fresh_run_key=str(uuid.uuid4()))


def fragment(page: StatusPage, *, announce: bool = True, notice: str | None = None) -> str:
    """Render the status alone. With `announce` False, a screen reader does not read again what it announced before."""
    return render_template(
        "jobs/_status.html",
        page=page,
        job=page.job,
        notice=notice,
        fresh_run_key=str(uuid.uuid4()),
        fragment=True,
        announce=announce,
    )


@jobs.get("/jobs/<uuid:job_id>/status")
def status(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the fragment that the page polls for; 204 while nothing has changed, which costs a single statement."""
    known, tier = form_fields.number_asked("rev"), request.args.get("t", "")
    if polling.is_unchanged(job_id, known, tier, services().settings):
        return Response(status=204)
    response: ResponseReturnValue = _changed(job_id)
    return response


@login_required  # type: ignore[untyped-decorator]
def _changed(job_id: uuid.UUID) -> ResponseReturnValue:
    page = _page_in_time(job_id)
    if page is None:
        return _gone(job_id)
    return fragment(page, announce=request.args.get("said") != polling.announcement_key(page.job))


def _gone(job_id: uuid.UUID) -> ResponseReturnValue:
    """Redirect a page that polls for a missing job to the page that says so, which ends the polling."""
    body, code = not_found()
    return body, code, {"HX-Redirect": url_for("jobs.show", job_id=job_id)}


@jobs.post("/jobs/<uuid:job_id>/cancel")
@login_required  # type: ignore[untyped-decorator]
def cancel(job_id: uuid.UUID) -> ResponseReturnValue:
    """Cancel the job."""
    with transaction() as database:
        cancelled = transitions.cancel(database, job_id, current_account().id)
    page = page_or_404(job_id)
    already_cancelled = page.job.state in (State.CANCELLED, State.CANCEL_REQUESTED)
    notice = TOO_LATE if cancelled is None and not already_cancelled else None
    if is_htmx():
        return fragment(page, notice=notice)
    if notice:
        return job_page(page, notice), 409
    return redirect(url_for("jobs.show", job_id=job_id), 303)


@jobs.post("/jobs/<uuid:job_id>/again")
@login_required  # type: ignore[untyped-decorator]
def again(job_id: uuid.UUID) -> ResponseReturnValue:
    """Try a failed job again, run a cancelled one, or run a saved one again; the form's `mode` says which."""
    mode = request.form.get("mode", "again")
    page = page_or_404(job_id)
    if mode == "again":
        try:
            put_back = try_again(current_account().id, job_id)
        except OverLimit as refusal:
            return job_page(page_or_404(job_id), refusal.shown_message), refusal.status, refusal.headers
        if put_back or page_or_404(job_id).job.state in WAITING:
            return redirect(url_for("jobs.show", job_id=job_id), 303)
        message = NOT_AGAIN if is_still_offered(page.job) else messages.NO_LONGER_OFFERED
        return job_page(page_or_404(job_id), message), 409
    fresh_run_key = usable_key(request.form.get("fresh_run_key")) if mode == "fresh" else None
    allowed = page.job.state is (State.SUCCEEDED if mode == "fresh" else State.CANCELLED)
    if not allowed or (mode == "fresh" and fresh_run_key is None):
        return job_page(page, NOT_AGAIN), 409
    try:
        recorded = submit_again(current_account().id, job_id, fresh_run_key=fresh_run_key)
    except NotAccepted as refusal:
        return job_page(page_or_404(job_id), refusal.shown_message), refusal.status, refusal.headers
    if recorded is None:
        return job_page(page_or_404(job_id), messages.ORIGINAL_GONE), 409
    return redirect(url_for("jobs.show", job_id=recorded.job_id), 303)
