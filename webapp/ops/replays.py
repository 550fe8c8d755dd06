"""The operators' pages for replays: select failed jobs, preview, start, and progress."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from tasks.cli.messages import CAUSES, ENDED_BECAUSE, HELD_UP, LEFT_ALONE, LONGEST_NOTE
from tasks.cli.replays import PER_MINUTE
from tasks.ledger.errors import Category
from tasks.ledger.keys import reference_of
from tasks.ledger.models.control import Cause, ReplayState
from tasks.ledger.replays import progress as replays_progress
from tasks.ledger.replays import replays, selection
from tasks.ledger.replays.selection import Choice
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import form_fields
from webapp.jobs import messages
from webapp.ops.work import note_of
from webapp.services import services

ops_replays = Blueprint("ops_replays", __name__, url_prefix="/ops/replays")

POLL_SECONDS = 2
NEWEST = 20
MAX_ITEMS = 100
CAUSE_MISSING = "Choose why these may go through now."
NOTE_MISSING = "Say why, in a few words. The history keeps it."
RATE_WRONG = f"Write a number from 1 to {replays.MAX_PER_MINUTE}."


@ops_replays.get("", endpoint="replays")
def replays_list() -> ResponseReturnValue:
    """Show the failures by cause, and the replays so far."""
    queue = services().settings.queue_name
    with transaction() as database:
        failures = selection.failures(database, queue)
        newest = replays_progress.newest(database, queue, limit=NEWEST)
    return render_template(
        "ops/replays.html", failures=failures, replays=newest, why=messages.failure_of, ended=ENDED_BECAUSE
    )


@ops_replays.get("/new")
def replay_new() -> ResponseReturnValue:
    """Show the dry run of a selection, and the form that starts it."""
    return new_page(choice_of(request.args))


def new_page(choice: Choice, errors: Mapping[str, str] | None = None) -> str:
    """Render the outcome for each category, and the form, with each error beside its field."""
    settings = services().settings
    with transaction() as database:
        evaluated = selection.evaluate(database, settings.queue_name, choice)
        held_up = replays.wait_reason(database, settings.queue_name, settings.lane)
    return render_template(
        "ops/new_replay.html",
        choice=choice,
        groups=selection.grouped(evaluated),
        named=evaluated if choice.category is None else [],
        would=sum(item.why is None for item in evaluated),
        most=selection.MAX_JOBS,
        held_up=HELD_UP.get(held_up or ""),
        left_alone=LEFT_ALONE,
        why=messages.failure_of,
        reference_of=reference_of,
        causes=CAUSES,
        typed=request.form,
        errors=errors or {},
        per_minute=PER_MINUTE,
        fastest=replays.MAX_PER_MINUTE,
        longest_note=LONGEST_NOTE,
    )


@ops_replays.post("")
def replay_begin() -> ResponseReturnValue:
    """Start the replay: the first job at once, the others in turn."""
    settings, choice, note = services().settings, choice_of(request.form), note_of(request.form)
    cause, rate = request.form.get("cause", ""), form_fields.number_in(request.form.get("per_minute", ""), 10**9)
    errors = {
        **({} if cause in set(Cause) else {"cause": CAUSE_MISSING}),
        **({} if note else {"note": NOTE_MISSING}),
        **({} if rate and rate <= replays.MAX_PER_MINUTE else {"per_minute": RATE_WRONG}),
    }
    if errors or rate is None:
        return new_page(choice, errors), 422
    with transaction() as database:
        evaluated = selection.evaluate(database, settings.queue_name, choice)
        replay_id = None
        if any(item.why is None for item in evaluated):
            replay_id = replays.begin(
                database,
                settings.queue_name,
                choice,
                cause=Cause(cause),
                note=note,
                by=current_account().email,
                per_minute=rate,
                terms=settings.replay_terms,
            )
    if replay_id is None:
        return new_page(choice), 409
    return redirect(url_for("ops_replays.replay", replay_id=replay_id), 303)


@ops_replays.get("/<uuid:replay_id>")
def replay(replay_id: uuid.UUID) -> ResponseReturnValue:
    """Show the progress of a replay and what became of its jobs."""
    with transaction() as database:
        shown = _progress(database, replay_id)
    return render_template("ops/replay.html", **shown, causes=CAUSES, longest_note=LONGEST_NOTE)


@ops_replays.get("/<uuid:replay_id>/now")
def replay_now(replay_id: uuid.UUID) -> ResponseReturnValue:
    """Return the fragment that the replay's page polls: 204 while it is unchanged."""
    with transaction() as database:
        shown = _progress(database, replay_id)
    if request.args.get("seen") == shown["seen"]:
        return Response(status=204)
    return render_template("ops/_replay.html", **shown, fragment=True)


def _progress(database: Session, replay_id: uuid.UUID) -> dict[str, object]:
    settings = services().settings
    progress = replays_progress.one(database, settings.queue_name, replay_id)
    if progress is None:
        abort(404)
    running = progress.replay.state == ReplayState.RUNNING
    held_up = replays.wait_reason(database, settings.queue_name, settings.lane) if running else None
    body = render_template(
        "ops/_replay_body.html",
        progress=progress,
        items=replays_progress.items_of(database, replay_id, limit=MAX_ITEMS),
        most=MAX_ITEMS,
        badges=messages.BADGES,
        left_alone=LEFT_ALONE,
        held_up=HELD_UP.get(held_up or ""),
        ended=ENDED_BECAUSE,
        reference_of=reference_of,
    )
    return {
        "progress": progress,
        "body": body,
        "seen": hashlib.sha256(body.encode()).hexdigest()[:16],
        "seconds": POLL_SECONDS if running or progress.under_way else None,
        "running": running,
    }


@ops_replays.post("/<uuid:replay_id>/stop")
def replay_stop(replay_id: uuid.UUID) -> ResponseReturnValue:
    """Stop a replay: none of its remaining jobs is put back."""
    with transaction() as database:
        queue = services().settings.queue_name
        replays.stop(database, queue, replay_id, by=current_account().email, note=note_of(request.form))
    return redirect(url_for("ops_replays.replay", replay_id=replay_id), 303)


def choice_of(given: MultiDict[str, str]) -> Choice:
    """Return the selection: named jobs, or a category and a code. Aborts with 404 if nothing is selected."""
    category = given.get("category", "")
    if category in set(Category):
        return Choice(category=category, code=given.get("code", "").replace("\0", "") or None)
    try:
        jobs = [uuid.UUID(name) for name in given.getlist("job")]
    except ValueError:
        abort(404)
    if not jobs:
        abort(404)
    return Choice(jobs)
