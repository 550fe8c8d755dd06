"""The API, version 1: JSON in, JSON out, bearer tokens, and every error a problem document.

A result that is not there yet is a 409 with the job's state, so that a client can tell it from a job that is not there.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, g, json, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tasks.costs import Usage
from tasks.ledger import queries, transitions
from tasks.ledger.identity import reference_of
from tasks.ledger.queries import JobView, LaneWait
from tasks.ledger.recording import IdempotencyKeyReused
from tasks.ledger.states import State
from webapp import cursors, tokens, wording
from webapp.cost_words import told_usage, usage_json
from webapp.documents import forget_document_of
from webapp.door import HandedIn, NotAccepted, take_file, take_text
from webapp.errors import PAGES, problem, token_needed
from webapp.extensions import limiter
from webapp.parts import parts
from webapp.submitting import options_of, submit, usable_key, workflow_of
from webapp.transactions import transaction

api = Blueprint("api", __name__, url_prefix="/api/v1")
# Only refused tokens are counted: guessing is slowed down, work is not.
limiter.limit("60 per minute", deduct_when=lambda response: response.status_code == 401)(api)

PAGE, LARGEST_PAGE = 20, 100
NO_SUCH_JOB = PAGES[404][0]
"""The same words as for an address that is none."""


class Problem(Exception):
    """An answer that ends the request here."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@api.errorhandler(Problem)
def say_problem(error: Problem) -> ResponseReturnValue:
    return error.response


@api.errorhandler(NotAccepted)
def say_not_accepted(refused: NotAccepted) -> ResponseReturnValue:
    return problem(
        refused.status, "The document was not accepted", refused.sentence, code=refused.code, field=refused.field
    )


@api.before_request
def authenticate() -> ResponseReturnValue | None:
    """Find the account of the token. Cookies do not count here, so no page of another site can use them."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        with transaction() as session:
            g.account_id = tokens.owner_of(session, token.strip())
        if g.account_id is not None:
            return None
    return token_needed()


@api.post("/jobs")
def create() -> ResponseReturnValue:
    """Accept a document: 202 for a new job, 200 for the one that the same wish led to before."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and usable_key(key) is None:
        raise Problem(problem(400, "Idempotency-Key is not usable", "Use 1 to 200 printable ASCII characters."))
    fields = _json_fields() if request.is_json else _form_fields()
    workflow = workflow_of(_text_of(fields, "workflow", "summary"))
    options = fields.get("options", {})
    if not isinstance(options, dict):
        raise NotAccepted("options_wrong", "options must be an object.", field="options")
    try:
        recorded = submit(
            g.account_id, _handed_in(fields), workflow, options_of(workflow, options), idempotency_key=usable_key(key)
        )
    except IdempotencyKeyReused:
        raise Problem(
            problem(409, "This Idempotency-Key was used with other content", "Send a new key for a new wish.")
        ) from None
    response = answer(_job_json(_job(recorded.job_id)), 202 if recorded.created else 200)
    response.headers["Location"] = url_for("api.show", job_id=recorded.job_id)
    return response


def _json_fields() -> dict[str, Any]:
    try:
        body = json.loads(request.get_data())
    except (ValueError, RecursionError):
        raise Problem(problem(400, "The body is not valid JSON")) from None
    if not isinstance(body, dict):
        raise Problem(problem(400, "The body must be a JSON object"))
    if "text" not in body:
        raise NotAccepted("empty", "text is missing. To send a file, use multipart/form-data.", field="text")
    return body


def _form_fields() -> dict[str, Any]:
    if request.mimetype != "multipart/form-data":
        raise Problem(problem(415, "Send application/json, or multipart/form-data with a file"))
    fields: dict[str, Any] = dict(request.form.items())
    if "options" in fields:
        try:
            fields["options"] = json.loads(fields["options"])
        except (ValueError, RecursionError):
            raise NotAccepted("options_wrong", "options must be a JSON object.", field="options") from None
    return fields


def _handed_in(fields: dict[str, Any]) -> HandedIn:
    settings, title = parts().settings, _text_of(fields, "title", "")
    files = request.files.getlist("file")
    if len(files) > 1:
        raise NotAccepted("several", wording.SEVERAL_HANDED_IN, field="file")
    if files and "text" in fields:
        raise NotAccepted("both", "Send a file or text, not both.", field="file")
    if files:
        return take_file(files[0].filename or "", files[0].stream, title, settings)
    return take_text(_text_of(fields, "text", ""), title, settings)


def _text_of(fields: dict[str, Any], name: str, default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise NotAccepted(f"{name}_wrong", f"{name} must be a string.", field=name)
    return value


@api.get("/jobs")
def index() -> ResponseReturnValue:
    """The account's jobs, newest first; `next` leads to the older ones."""
    limit = request.args.get("limit", PAGE, type=int)
    if not 1 <= limit <= LARGEST_PAGE:
        raise Problem(problem(422, "limit is out of range", f"Use 1 to {LARGEST_PAGE}."))
    before = None
    if "before" in request.args:
        before = cursors.read(request.args["before"])
        if before is None:
            raise Problem(problem(422, "before is not one of ours", "Use the address in `next`."))
    with transaction() as session:
        found = queries.jobs_of(session, g.account_id, limit=limit + 1, before=before)
        waits = queries.lane_waits_of(session, [job.id for job in found])
        used = _usage(session, found[:limit])
    older = url_for("api.index", before=cursors.after(found[limit - 1]), limit=limit) if len(found) > limit else None
    return answer(
        {"jobs": [job_json(job, waits.get(job.id), used.get(job.id)) for job in found[:limit]], "next": older}
    )


@api.get("/jobs/<uuid:job_id>")
def show(job_id: uuid.UUID) -> ResponseReturnValue:
    """How the job stands."""
    return answer(_job_json(_job(job_id)))


@api.delete("/jobs/<uuid:job_id>")
def delete(job_id: uuid.UUID) -> ResponseReturnValue:
    """Delete the job's document, with every job about it, their results and their history."""
    if not forget_document_of(job_id, g.account_id):
        raise Problem(problem(404, NO_SUCH_JOB))
    return Response(status=204)


@api.get("/jobs/<uuid:job_id>/result")
def result(job_id: uuid.UUID) -> ResponseReturnValue:
    """What was made of the document. 409 while there is none, with the job's state."""
    job = _job(job_id)
    with transaction() as session:
        saved = queries.result_of(session, job_id, g.account_id)
    if saved is None:
        detail = "There will be none." if job.finished else "It is not ready yet."
        raise Problem(problem(409, "There is no result", detail, state=job.state))
    return answer(
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
    """Ask for no result. Asking again changes nothing; 409 when the job has already ended otherwise."""
    with transaction() as session:
        cancelled = transitions.cancel(session, job_id, g.account_id)
    job = _job(job_id)
    if cancelled is None and job.state not in (State.CANCELLED, State.CANCEL_REQUESTED):
        raise Problem(problem(409, "The job has already ended", state=job.state))
    return answer(_job_json(job), 202 if job.state is State.CANCEL_REQUESTED else 200)


def _job(job_id: uuid.UUID) -> JobView:
    with transaction() as session:
        job = queries.job_of(session, job_id, g.account_id)
    if job is None:
        raise Problem(problem(404, NO_SUCH_JOB))
    return job


def _job_json(job: JobView) -> dict[str, Any]:
    with transaction() as session:
        return job_json(job, queries.lane_wait_of(session, job.id), _usage(session, [job]).get(job.id))


def _usage(session: Session, found: Sequence[JobView]) -> dict[uuid.UUID, Usage]:
    """What these jobs used, by their ids; empty where owners are not told, without those that asked no AI service."""
    settings = parts().settings
    if not settings.show_cost_to_owner:
        return {}
    spending = queries.spending_of(session, [job.id for job in found], g.account_id)
    used = {job_id: told_usage(calls, settings) for job_id, calls in spending.items()}
    return {job_id: usage for job_id, usage in used.items() if usage is not None}


def job_json(job: JobView, wait: LaneWait | None, usage: Usage | None = None) -> dict[str, Any]:
    """A job as programs see it. `wait` is the closed door it waits behind, until the named moment at the latest."""
    failing = job.error_category if job.state in (State.FAILED, State.RETRY_WAIT) else None
    failure = wording.failure_of(failing, job.error_code)
    if job.state is State.FAILED:
        failure = wording.ending_of(failing, job.error_code, job.filename)
    error = {"category": failing, "code": job.error_code, "message": f"{failure.what} {failure.so}".strip()}
    return {
        "id": str(job.id),
        "reference": reference_of(job.id),
        "title": job.title,
        "workflow": job.workflow,
        "options": dict(job.options),
        "state": str(job.state),
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
        "url": url_for("api.show", job_id=job.id),
        "result_url": url_for("api.result", job_id=job.id) if job.state is State.SUCCEEDED else None,
    }


def instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def answer(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")
