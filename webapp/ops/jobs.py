"""The operators' pages about the whole site and its jobs. The figures come from the ledger."""

from __future__ import annotations

import hashlib
import uuid
from datetime import timedelta

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from tasks.ledger.keys import reference_of
from tasks.ledger.reports import inspection, job_search
from tasks.ledger.reports.inspection import Opened
from tasks.ledger.reports.last_day import last_day
from tasks.ledger.states import State
from tasks.pricing import cost_of
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import pagination
from webapp.jobs import deadlines, messages, timeline
from webapp.jobs.usage import money
from webapp.ops import dashboard, job_filters
from webapp.services import services
from webapp.text.strings import cut, one_line

ops = Blueprint("ops", __name__, url_prefix="/ops")

PAGE = 50
POLL_SECONDS = 10
MAX_CAUSE_LENGTH = 200
NO_SUCH_JOB = "No job has this id or reference."
SEVERAL_JOBS = "More than one job has this reference. Search for the id."
NO_NAME = "This is neither an id nor a reference like WB-7K3F-92QD."
SAY_WHY = "Say why you open it. The reason is kept in the history of the job."


@ops.get("")
def overview() -> ResponseReturnValue:
    """Show the dashboard."""
    return render_template("ops/dashboard.html", **_now())


@ops.get("/now")
def now() -> ResponseReturnValue:
    """Return the fragment that the dashboard polls: 204 while it is unchanged."""
    shown = _now()
    if request.args.get("seen") == shown["seen"]:
        return Response(status=204)
    announce = request.args.get("said") != shown["said"]
    return render_template("ops/_dashboard.html", **shown, fragment=True, announce=announce)


def _now() -> dict[str, object]:
    deadlines.sweep()
    with transaction() as database:
        figures = dashboard.now_of(database, services().settings)
    alarms = dashboard.alarms_of(figures)
    body = render_template("ops/_dashboard_body.html", figures=figures, alarms=alarms, why=messages.failure_of)
    return {
        "body": body,
        "seen": hashlib.sha256(body.encode()).hexdigest()[:16],
        "said": "-".join(alarms) or "fine",
        "alarms": alarms,
        "seconds": POLL_SECONDS,
    }


@ops.get("/day")
def day() -> ResponseReturnValue:
    """Show what happened in the last 24 hours."""
    with transaction() as database:
        figures = last_day(database)
    return render_template(
        "ops/last_day.html",
        day=figures,
        charts=dashboard.charts_of(figures),
        begins=[figures.at - timedelta(hours=hour.ago + 1) for hour in figures.hours],
        tokens=dashboard.tokens_of(figures, services().settings),
        why=messages.failure_of,
        money=money,
    )


@ops.get("/jobs")
def jobs() -> ResponseReturnValue:
    """List the jobs that match the filters, newest first; or open the one that was searched for."""
    name, missing = request.args.get("q", "").strip(), None
    before = pagination.read(request.args.get("before", ""))
    with transaction() as database:
        if name:
            found = job_search.named(database, name)
            if found is not None and len(found) == 1:
                return redirect(url_for("ops.job", job_id=found[0]), 303)
            missing = NO_NAME if found is None else SEVERAL_JOBS if found else NO_SUCH_JOB
        asked = job_filters.read(database, request.args)
        listed = job_search.Page([], None, False)
        if not asked.errors:
            listed = job_search.list_page(database, asked.wanted, limit=PAGE, before=before)
        emails = job_filters.emails_of(database, {job.account_id for job in listed.jobs})
    return render_template(
        "ops/jobs.html",
        listed=listed,
        emails=emails,
        asked=asked,
        older=pagination.after(listed.older) if listed.older else None,
        paged=before is not None,
        name=name[:80],
        missing=missing,
        states=messages.BADGES,
        offered=job_filters.offered(),
        reference_of=reference_of,
    ), 404 if missing else 200


@ops.get("/jobs/<uuid:job_id>")
def job(job_id: uuid.UUID) -> ResponseReturnValue:
    """Show everything about one job except its content."""
    return job_page(job_id)


@ops.post("/jobs/<uuid:job_id>/open")
def open_document(job_id: uuid.UUID) -> ResponseReturnValue:
    """Show the job's content, this once. The history records who did it and why."""
    cause = cut(one_line(request.form.get("cause", "")), MAX_CAUSE_LENGTH)
    if not cause:
        return job_page(job_id, error=SAY_WHY), 422
    with transaction() as database:
        opened = inspection.inspect(database, job_id, by=current_account().email, cause=cause)
    return job_page(job_id, opened=opened)


def job_page(job_id: uuid.UUID, opened: Opened | None = None, error: str | None = None) -> str:
    """Render the page of a job. Aborts with 404 if it does not exist."""
    with transaction() as database:
        record = inspection.record_of(database, job_id)
        emails = job_filters.emails_of(database, set() if record is None else {record.job.account_id})
    if record is None:
        abort(404)
    prices = services().settings.prices
    costs = {call.id: cost_of(call, prices) for call in record.calls}
    return render_template(
        "ops/job.html",
        record=record,
        job=record.job,
        reference=reference_of(job_id),
        email=emails.get(record.job.account_id),
        badge_word=messages.BADGES[State(record.job.state)],
        failure=messages.failure_of(record.job.error_category, record.job.error_code)
        if record.job.error_category
        else None,
        costs={call_id: money(cost) for call_id, cost in costs.items() if cost is not None},
        most_rows=inspection.MAX_ROWS,
        most_characters=inspection.MAX_CHARACTERS,
        who=timeline.who_did,
        opened=opened,
        error=error,
        longest_cause=MAX_CAUSE_LENGTH,
    )
