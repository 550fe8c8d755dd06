"""The operators' controls for the work of the whole site: pause, drain, resume, open a lane; and the audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from flask import Blueprint, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tasks.cli.messages import DECIDED, LONGEST_NOTE
from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate as delivery_gate
from tasks.ledger.history import audit_log
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.replays import operator_actions, progress
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import form_fields
from webapp.jobs.messages import failure_of
from webapp.services import services
from webapp.text.strings import cut, one_line

ops_decisions = Blueprint("ops_decisions", __name__, url_prefix="/ops")

POLL_SECONDS = 2
MAX_CLAIMS_SHOWN = 20
PAGE = 50
MAX_AT_ONCE = 100_000
AT_ONCE_WRONG = f"Write a number from 1 to {MAX_AT_ONCE:,}, or leave it empty for no limit."


@ops_decisions.get("/work")
def work() -> ResponseReturnValue:
    """Show whether work goes on, what is active, and the buttons that change it."""
    return work_page()


def work_page(errors: Mapping[str, str] | None = None) -> str:
    """Render the page, with each error beside its field."""
    settings = services().settings
    with transaction() as database:
        now = _now(database)
        closed = lanes.check(database, settings.lane)
        newest = audit_log.newest(database, settings.queue_name, limit=5)
    return render_template(
        "ops/work.html",
        **now,
        lane=settings.lane,
        closed=closed,
        why=failure_of(closed.category, None).what if closed and closed.category else None,
        decisions=newest,
        decided=DECIDED,
        errors=errors or {},
        typed=request.form,
        longest_note=LONGEST_NOTE,
    )


@ops_decisions.get("/work/now")
def work_now() -> ResponseReturnValue:
    """Return the fragment that the page polls: 204 while it is unchanged."""
    with transaction() as database:
        now = _now(database)
    if request.args.get("seen") == now["seen"]:
        return Response(status=204)
    return render_template("ops/_work.html", **now, fragment=True)


def _now(database: Session) -> dict[str, object]:
    queue = services().settings.queue_name
    gate = delivery_gate.load(database, queue)
    active = delivery_gate.active(database, queue)
    body = render_template(
        "ops/_work_body.html",
        gate=gate,
        active=active,
        held=delivery_gate.held(database, queue, limit=MAX_CLAIMS_SHOWN),
        waiting=delivery_gate.waiting(database, queue),
        replays=progress.running(database, queue),
    )
    seen = hashlib.sha256(body.encode()).hexdigest()[:16]
    return {"body": body, "seen": seen, "active": active, "gate": gate, "seconds": POLL_SECONDS}


@ops_decisions.post("/work/pause")
def pause() -> ResponseReturnValue:
    """Pause the work: hand nothing more to the queue."""
    with transaction() as database:
        delivery_gate.pause(
            database, services().settings.queue_name, by=current_account().email, note=note_of(request.form)
        )
    return _back_to_work()


@ops_decisions.post("/work/drain")
def drain() -> ResponseReturnValue:
    """Drain the work: start no attempt either."""
    with transaction() as database:
        delivery_gate.drain(
            database, services().settings.queue_name, by=current_account().email, note=note_of(request.form)
        )
    return _back_to_work()


@ops_decisions.post("/work/resume")
def resume() -> ResponseReturnValue:
    """Resume the work, with at most as many jobs at once as the form says."""
    typed = request.form.get("at_once", "").strip()
    at_once = form_fields.number_in(typed, MAX_AT_ONCE)
    if typed and at_once is None:
        return work_page({"at_once": AT_ONCE_WRONG}), 422
    with transaction() as database:
        queue = services().settings.queue_name
        delivery_gate.resume(database, queue, by=current_account().email, at_once=at_once, note=note_of(request.form))
    return _back_to_work()


@ops_decisions.post("/work/lane")
def open_lane() -> ResponseReturnValue:
    """Allow calls to the AI service again."""
    settings = services().settings
    with transaction() as database:
        operator_actions.open_lane(
            database,
            settings.queue_name,
            settings.lane,
            by=current_account().email,
            note=note_of(request.form),
            spread_seconds=LANE_SPREAD_SECONDS,
        )
    return _back_to_work()


@ops_decisions.get("/decisions")
def all_decisions() -> ResponseReturnValue:
    """List who decided what, and why, newest first."""
    before = form_fields.number_asked("before")
    with transaction() as database:
        found = audit_log.newest(database, services().settings.queue_name, limit=PAGE + 1, before=before)
    older = found[PAGE - 1].id if len(found) > PAGE else None
    return render_template(
        "ops/audit_log.html", decisions=found[:PAGE], decided=DECIDED, older=older, paged=before is not None
    )


def note_of(form: Mapping[str, str]) -> str:
    """Return the operator's reason for a decision, in one line; empty if there is none."""
    return cut(one_line(form.get("note", "")), LONGEST_NOTE)


def _back_to_work() -> ResponseReturnValue:
    return redirect(url_for("ops_decisions.work"), 303)
