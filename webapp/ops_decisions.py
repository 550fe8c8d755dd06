"""What an operator decides about the work of the whole site: pause, drain, resume, open a lane; and the record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from flask import Blueprint, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tasks.ledger import decisions, gates, lanes, replay_progress
from tasks.ledger.transitions import LANE_SPREAD_SECONDS
from tasks.operator_words import DECIDED, LONGEST_NOTE
from webapp import forms
from webapp.parts import parts
from webapp.sessions import viewer
from webapp.titles import cut, one_line
from webapp.transactions import transaction
from webapp.wording import failure_of

ops_decisions = Blueprint("ops_decisions", __name__, url_prefix="/ops")

POLL_SECONDS = 2
MOST_HELD = 20
PAGE = 50
MOST_AT_ONCE = 100_000
AT_ONCE_WRONG = f"Write a number from 1 to {MOST_AT_ONCE:,}, or leave it empty for no limit."


@ops_decisions.get("/work")
def work() -> ResponseReturnValue:
    """Whether work goes on, what is active, and the buttons that change it."""
    return work_page()


def work_page(errors: Mapping[str, str] | None = None) -> str:
    """The page, with each error beside its field."""
    settings = parts().settings
    with transaction() as database:
        now = _now(database)
        closed = lanes.door(database, settings.lane)
        newest = decisions.newest(database, settings.queue_name, limit=5)
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
    """The part of that page that it asks for again and again: 204 while it would look the same."""
    with transaction() as database:
        now = _now(database)
    if request.args.get("seen") == now["seen"]:
        return Response(status=204)
    return render_template("ops/_work_now.html", **now, fragment=True)


def _now(database: Session) -> dict[str, object]:
    queue = parts().settings.queue_name
    gate = gates.of(database, queue)
    active = gates.active(database, queue)
    body = render_template(
        "ops/_work_figures.html",
        gate=gate,
        active=active,
        held=gates.held(database, queue, limit=MOST_HELD),
        waiting=gates.waiting(database, queue),
        replays=replay_progress.running(database, queue),
    )
    seen = hashlib.sha256(body.encode()).hexdigest()[:16]
    return {"body": body, "seen": seen, "active": active, "gate": gate, "seconds": POLL_SECONDS}


@ops_decisions.post("/work/pause")
def pause() -> ResponseReturnValue:
    """Hand nothing more to the queue."""
    with transaction() as database:
        gates.pause(database, parts().settings.queue_name, by=viewer().email, note=note_of(request.form))
    return _back_to_work()


@ops_decisions.post("/work/drain")
def drain() -> ResponseReturnValue:
    """Let no attempt begin either."""
    with transaction() as database:
        gates.drain(database, parts().settings.queue_name, by=viewer().email, note=note_of(request.form))
    return _back_to_work()


@ops_decisions.post("/work/resume")
def resume() -> ResponseReturnValue:
    """Let work go on, with so many jobs at once as the form says."""
    typed = request.form.get("at_once", "").strip()
    at_once = forms.number_in(typed, MOST_AT_ONCE)
    if typed and at_once is None:
        return work_page({"at_once": AT_ONCE_WRONG}), 422
    with transaction() as database:
        queue = parts().settings.queue_name
        gates.resume(database, queue, by=viewer().email, at_once=at_once, note=note_of(request.form))
    return _back_to_work()


@ops_decisions.post("/work/lane")
def open_lane() -> ResponseReturnValue:
    """Let calls to the AI service be made again."""
    settings = parts().settings
    with transaction() as database:
        decisions.open_lane(
            database,
            settings.queue_name,
            settings.lane,
            by=viewer().email,
            note=note_of(request.form),
            spread_seconds=LANE_SPREAD_SECONDS,
        )
    return _back_to_work()


@ops_decisions.get("/decisions")
def all_decisions() -> ResponseReturnValue:
    """Who decided what, and why, newest first."""
    before = forms.number_asked("before")
    with transaction() as database:
        found = decisions.newest(database, parts().settings.queue_name, limit=PAGE + 1, before=before)
    older = found[PAGE - 1].id if len(found) > PAGE else None
    return render_template(
        "ops/decisions.html", decisions=found[:PAGE], decided=DECIDED, older=older, paged=before is not None
    )


def note_of(form: Mapping[str, str]) -> str:
    """What an operator wrote about a decision, in one line; empty if nothing."""
    return cut(one_line(form.get("note", "")), LONGEST_NOTE)


def _back_to_work() -> ResponseReturnValue:
    return redirect(url_for("ops_decisions.work"), 303)
