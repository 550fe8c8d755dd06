"""The jobs of the API, version 1: JSON in, JSON out, bearer tokens, and every error a problem document.

A result that is not there yet is a 409 with the job's state, so that a client can tell it from a job that is not there.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from flask import Response, g, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import Select
from sqlalchemy.orm import Session

from tasks.ledger.accounts.limits import Limit
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.accept import IdempotencyKeyReused
from tasks.ledger.keys import reference_of
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView, LaneWait
from tasks.ledger.reports.poll import revision_of
from tasks.ledger.states import UNFINISHED, WAITING, State
from tasks.pricing import Usage
from webapp.api.blueprint import api
from webapp.api.requests import ApiOptions, Problem, body_fields, instant, json_response, number_in_query, text_of
from webapp.database import reading, transaction
from webapp.http import pagination
from webapp.http.errors import PAGES, problem
from webapp.http.long_polling import LONGEST_WAIT_SECONDS, Ended
from webapp.http.rejection import NotAccepted
from webapp.jobs import deadlines, messages
from webapp.jobs.deletion import delete_document_of_job
from webapp.jobs.parsing import DEFAULT_WORKFLOW, Fields, parse_submission
from webapp.jobs.submission import can_try_again, submit, try_again, usable_key
from webapp.jobs.usage import reported_usage, usage_json
from webapp.limits import usage_of_account
from webapp.services import services

PAGE, MAX_PAGE = 20, 100
NO_SUCH_JOB = PAGES[404][0]
"""The same words as for an unknown address."""
JOB_FIELDS = ("text", "file", "title", "workflow", "options")
MAX_REVISION = 2**31 - 1


@api.post("/jobs")
def create() -> ResponseReturnValue:
    """Accept a document: 202 for a new job, 200 for the job that the same request led to before."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and usable_key(key) is None:
        raise Problem(problem(400, "Idempotency-Key is not usable", "Use 1 to 200 printable ASCII characters."))
    fields = body_fields(JOB_FIELDS, forms=True)
    submission = parse_submission(_submitted_fields(fields), services().settings)
    assert submission.document is not None, "only one file is allowed"
    try:
        recorded = submit(
            g.account_id,
            submission.document,
            submission.workflow,
            submission.options,
            idempotency_key=usable_key(key),
        )
    except IdempotencyKeyReused:
        raise Problem(
            problem(409, "This Idempotency-Key was used with other content", "Send a new key for a new wish.")
        ) from None
    g.of_day = usage_of_account(g.account_id)[Limit.JOBS_PER_DAY]
    response = json_response(_job_json(_job(recorded.job_id)), 202 if recorded.created else 200)
    response.headers["Location"] = url_for("api.show", job_id=recorded.job_id)
    return response


def _submitted_fields(fields: dict[str, Any]) -> Fields:
    files = request.files.getlist("file")
    if not files and "file" in fields:
        raise NotAccepted("file_wrong", "To send a file, use multipart/form-data.", field="file")
    if not files and "text" not in fields:
        raise NotAccepted("empty", "text is missing. To send a file, use multipart/form-data.", field="text")
    return Fields(
        workflow=text_of(fields, "workflow", DEFAULT_WORKFLOW),
        options=ApiOptions(fields),
        text=text_of(fields, "text", ""),
        title="" if fields.get("title") is None else text_of(fields, "title", ""),
        files=files,
    )


@api.get("/jobs")
def index() -> ResponseReturnValue:
    """List the account's jobs, newest first; `next` leads to the older ones."""
    return job_list("api.index")


def job_list(endpoint: str, among: Select[uuid.UUID] | None = None, **url_values: Any) -> ResponseReturnValue:
    """Return a page of the account's jobs. `among` selects the ids to include; None for all."""
    limit, before = page_asked_for()
    state = state_asked_for()

    def read() -> list[JobView]:
        states = None if state is None else {state}
        with transaction() as session:
            return job_views.jobs_of(session, g.account_id, limit=limit + 1, before=before, states=states, among=among)

    found = read()
    if deadlines.enforce(found):
        found = read()
    with transaction() as session:
        waits = job_views.lane_waits_of(session, [job.id for job in found])
        used = _usage(session, found[:limit])
    listed = [job_json(job, waits.get(job.id), used.get(job.id)) for job in found[:limit]]
    older = None
    if len(found) > limit:
        before_this = pagination.after(found[limit - 1].place)
        older = url_for(endpoint, **url_values, before=before_this, limit=limit, state=state and str(state))
    return page_answer("jobs", listed, older)


def page_asked_for() -> tuple[int, pagination.Cursor | None]:
    """Return how many entries of a list are requested, and after which one. Raises Problem."""
    limit = number_in_query("limit", 1, MAX_PAGE) or PAGE
    if "before" not in request.args:
        return limit, None
    before = pagination.read(request.args["before"])
    if before is None:
        raise Problem(problem(422, "before is not one of ours", "Use the address in `next`.", field="before"))
    return limit, before


def state_asked_for() -> State | None:
    """Return the requested state; None for all. Raises Problem."""
    requested = request.args.get("state")
    if requested is None:
        return None
    if requested not in set(State):
        raise Problem(problem(422, "state is not known", f"Known states: {', '.join(State)}.", field="state"))
    return State(requested)


def page_answer(name: str, listed: list[dict[str, Any]], older: str | None) -> Response:
    """Return a page of a list, with the link to the next page in the body and in the header Link."""
    response = json_response({name: listed, "next": older})
    if older is not None:
        response.headers["Link"] = f'<{older}>; rel="next"'
    return response


@api.get("/jobs/<uuid:job_id>")
def show(job_id: uuid.UUID) -> ResponseReturnValue:
    """Show a job; with `wait`, as soon as it has changed.

    `wait` is how many seconds the response may take. It comes at once when the job's `revision` differs from the one in
    the query, or when the job has ended. Without `revision`, it waits for a change from now on. The header
    `Waybill-Wait` says why the response came; after `full`, where too many requests wait already, ask again in some
    seconds.
    """
    seconds = number_in_query("wait", 0, LONGEST_WAIT_SECONDS)
    known = number_in_query("revision", 0, MAX_REVISION)
    job = _job(job_id)
    if not seconds:
        return json_response(_job_json(job))
    ended = _wait_for_change(job, job.revision if known is None else known, seconds)
    response = json_response(_job_json(_job(job_id)))
    response.headers["Waybill-Wait"] = ended
    return response


def _wait_for_change(job: JobView, known: int, seconds: int) -> Ended:
    if job.revision != known:
        return Ended.CHANGED
    if job.finished:
        return Ended.FINISHED
    account_id = g.account_id

    def changed() -> bool:
        with reading() as connection:
            return revision_of(connection, job.id, account_id) != known

    return services().long_poll_slots.wait(changed, seconds)


@api.delete("/jobs/<uuid:job_id>")
def delete(job_id: uuid.UUID) -> ResponseReturnValue:
    """Delete the job's document, with every job about it, their results and their history."""
    if not delete_document_of_job(job_id, g.account_id):
        raise Problem(problem(404, NO_SUCH_JOB))
    return Response(status=204)


@api.get("/jobs/<uuid:job_id>/result")
def result(job_id: uuid.UUID) -> ResponseReturnValue:
    """Return the result. 409 while there is none, with the job's state; 410 once it has been deleted."""
    job = _job(job_id)
    with transaction() as session:
        saved = job_views.result_of(session, job_id, g.account_id)
    if saved is None and job.content_deleted_at is not None and job.state is State.SUCCEEDED:
        raise Problem(problem(410, *PAGES[410], state=job.state, deleted_at=instant(job.content_deleted_at)))
    if saved is None:
        detail = "There will be none." if job.finished else "It is not ready yet."
        raise Problem(problem(409, "There is no result", detail, state=job.state))
    return json_response(
        {
            "id": str(job_id),
            "text": saved.text,
            "format": "markdown",
            "model": saved.facts.get("model"),
            "label": saved.facts.get("label"),
            "complete": not saved.facts.get("cut_off", False),
            "created_at": instant(saved.created_at),
        }
    )


@api.post("/jobs/<uuid:job_id>/cancel")
def cancel(job_id: uuid.UUID) -> ResponseReturnValue:
    """Cancel the job. Asking again changes nothing; 409 when the job has already ended otherwise."""
    with transaction() as session:
        cancelled = transitions.cancel(session, job_id, g.account_id)
    job = _job(job_id)
    if cancelled is None and job.state not in (State.CANCELLED, State.CANCEL_REQUESTED):
        raise Problem(problem(409, "The job has already ended", state=job.state))
    return json_response(_job_json(job), 202 if job.state is State.CANCEL_REQUESTED else 200)


@api.post("/jobs/<uuid:job_id>/retry")
def retry(job_id: uuid.UUID) -> ResponseReturnValue:
    """Try a failed job again, as the page's button does: 202. A job that waits or runs already is returned as it is.

    The job keeps its id and its saved parts, and gets a new deadline. 409 where trying again cannot help: the job has
    not failed, its cause stays until somebody acts, or its document was deleted.
    """
    job = _job(job_id)
    if job.state in UNFINISHED:
        return json_response(_job_json(job), 200)
    if not try_again(g.account_id, job_id):
        raise Problem(problem(409, "The job cannot be tried again", _why_not_again(job), state=job.state))
    return json_response(_job_json(_job(job_id)), 202)


def _why_not_again(job: JobView) -> str:
    if job.state is not State.FAILED:
        return "Only a failed job can. Submit the document again with a new Idempotency-Key."
    if not job.original_kept or job.content_deleted_at is not None:
        return "Its document was deleted. Submit it again."
    if not messages.is_passing(job.error_category):
        return "Its cause does not pass by itself: see `error`. Correct it, and submit the document again."
    return "It has been tried too often, or its workflow is not offered any more. Submit the document again."


def _job(job_id: uuid.UUID) -> JobView:
    job = _read(job_id)
    if job is not None and deadlines.enforce([job]):
        job = _read(job_id)
    if job is None:
        raise Problem(problem(404, NO_SUCH_JOB))
    return job


def _read(job_id: uuid.UUID) -> JobView | None:
    with reading() as connection:
        return job_views.job_of(connection, job_id, g.account_id)


def _job_json(job: JobView) -> dict[str, Any]:
    with reading() as connection:
        wait = job_views.lane_wait_of(connection, job.id) if job.state in WAITING else None
    with transaction() as session:
        return job_json(job, wait, _usage(session, [job]).get(job.id))


def _usage(session: Session, found: Sequence[JobView]) -> dict[uuid.UUID, Usage]:
    """Return the usage of these jobs by their ids.

    Jobs without a provider call are left out. Empty if the settings hide costs from owners.
    """
    settings = services().settings
    if not settings.show_cost_to_owner:
        return {}
    spending = job_views.spending_of(session, [job.id for job in found], g.account_id)
    used = {job_id: reported_usage(calls, settings) for job_id, calls in spending.items()}
    return {job_id: usage for job_id, usage in used.items() if usage is not None}


def job_json(job: JobView, wait: LaneWait | None, usage: Usage | None = None) -> dict[str, Any]:
    """Return a job as the API shows it.

    `wait` is the closed lane that the job waits for, until the named moment at the latest.
    """
    failing = job.error_category if job.state in (State.FAILED, State.RETRY_WAIT) else None
    failure = messages.failure_of(failing, job.error_code)
    if job.state is State.FAILED:
        failure = messages.ending_of(failing, job.error_code, job.filename)
    so = failure.so if job.content_deleted_at is None else messages.HAND_IN_AGAIN
    error = {"category": failing, "code": job.error_code, "message": f"{failure.what} {so}".strip()}
    has_result = job.state is State.SUCCEEDED and job.content_deleted_at is None
    return {
        "id": str(job.id),
        "reference": reference_of(job.id),
        "title": job.title,
        "workflow": job.workflow,
        "options": dict(job.options),
        "state": str(job.state),
        "revision": job.revision,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "progress": {"done": job.progress_done, "total": job.progress_total} if job.progress_total else None,
        "waiting_for": None if wait is None else {"category": wait.category, "until": instant(wait.until)},
        "next_attempt_at": instant(job.next_attempt_at),
        "deadline_at": instant(job.deadline_at),
        "error": error if failing else None,
        "unanswered_calls": job.unknown_calls,
        "usage": None if usage is None else usage_json(usage),
        "created_at": instant(job.created_at),
        "finished_at": instant(job.finished_at),
        "content_deleted_at": instant(job.content_deleted_at),
        "url": url_for("api.show", job_id=job.id),
        "result_url": url_for("api.result", job_id=job.id) if has_result else None,
        "retry_url": url_for("api.retry", job_id=job.id) if can_try_again(job) else None,
    }
