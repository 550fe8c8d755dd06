"""`python -m tasks ops …`: pauses, drains and resumes the work of the site, and shows its status."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from tasks.cli.jobs import opened
from tasks.cli.messages import HELD_UP, command_line_user, gate_in_words
from tasks.ledger.calls import lanes
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.delivery import gate as delivery_gate
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.notifications import alerts
from tasks.ledger.replays import operator_actions, progress, replays, selection
from tasks.ledger.reports import job_views
from tasks.ledger.states import TERMINAL
from tasks.settings import Settings

COUNT_EVERY_SECONDS = 0.5
MAX_JOBS_NAMED = 20


def pause(settings: Settings, *, note: str | None) -> list[str]:
    """Stop dispatch, and return lines that say so."""
    with opened(settings) as database, database.transaction() as session:
        gate = delivery_gate.pause(session, settings.queue_name, by=command_line_user(), note=note)
        active = delivery_gate.active(session, settings.queue_name)
    return [
        f"work: {gate_in_words(gate)}",
        f"active: {active}",
        "What is in the queue already may still begin: stop that too with `ops drain`.",
    ]


def drain(settings: Settings, *, note: str | None, timeout: float | None, say: Callable[[str], object]) -> bool:
    """Stop dispatch and claims, wait for active jobs, and say how many there are whenever that changes.

    `timeout` is in seconds; None waits as long as a worker may hold a job. Returns True if nothing is active any more.
    """
    max_wait = settings.reservation_seconds + settings.lease_seconds + 2 * settings.sweep_seconds
    until = time.monotonic() + (max_wait if timeout is None else timeout)
    with opened(settings) as database:
        with database.transaction() as session:
            active = delivery_gate.drain(session, settings.queue_name, by=command_line_user(), note=note)
        say(f"active: {active}")
        while active and time.monotonic() < until:
            time.sleep(min(COUNT_EVERY_SECONDS, max(0.0, until - time.monotonic())))
            with database.transaction() as session:
                now = delivery_gate.active(session, settings.queue_name)
            if now != active:
                active = now
                say(f"active: {active}")
        if not active:
            say("Nothing is active. Claims stay stopped until `ops resume`.")
            return True
        with database.transaction() as session:
            still_active = delivery_gate.held(session, settings.queue_name, limit=MAX_JOBS_NAMED)
        for job in still_active:
            step = f", step {job.step}" if job.step else ""
            say(f"still active: {job.reference}, since {job.claimed_at:%T} UTC, {job.worker}{step}")
        say("Claims stay stopped. Wait on with the same command, or let work go on with `ops resume`.")
        return not still_active


def resume(settings: Settings, *, note: str | None, at_once: int | None, keep_lane: bool) -> list[str]:
    """Open the gate, and the lane unless `keep_lane` is set, and return lines that say so."""
    by = command_line_user()
    with opened(settings) as database, database.transaction() as session:
        before = delivery_gate.resume(session, settings.queue_name, by=by, at_once=at_once, note=note)
        gate = delivery_gate.load(session, settings.queue_name)
        lines = [f"work: {gate_in_words(gate)}{'' if before else ', nothing to resume'}"]
        if before is not None and before.is_paused:
            lines += _ended_meanwhile(session, settings)
        if not keep_lane:
            lines += _open_lane(session, settings, by=by, note=note)
    return lines


def _ended_meanwhile(session: Session, settings: Settings) -> list[str]:
    """Return a line about the jobs whose deadline passed in the pause, which does not stop their clock.

    They can be replayed together. Returns no line if there are none.
    """
    failed = selection.failures(session, settings.queue_name)
    ended = sum(count for category, code, count, _ in failed if (category, code) == ("deadline", "paused"))
    if not ended:
        return []
    return [
        f"ran out of time while paused: {ended}. Put them back with "
        "`jobs replay --category deadline --code paused --cause other --note …`."
    ]


def _open_lane(session: Session, settings: Settings, *, by: str, note: str | None) -> list[str]:
    released = operator_actions.open_lane(
        session, settings.queue_name, settings.lane, by=by, note=note, spread_seconds=LANE_SPREAD_SECONDS
    )
    if released is None:
        return [f"lane {settings.lane}: was open, nothing to resume"]
    return [f"lane {settings.lane}: open again", f"waiting jobs let go: {released}"]


def status(settings: Settings) -> list[str]:
    """Return lines about the state of the site."""
    with opened(settings) as database, database.transaction() as session:
        gate = delivery_gate.load(session, settings.queue_name)
        active = delivery_gate.active(session, settings.queue_name)
        closed = lanes.check(session, settings.lane)
        counts = job_views.jobs_by_state(session)
        orphans = job_views.orphans(session, renewal=settings.renewal)
        workers = job_views.live_workers(
            session, queue=settings.queue_name, seen_within_seconds=settings.lease_seconds * 2
        )
        running = progress.running(session, settings.queue_name)
        held_up = replays.wait_reason(session, settings.queue_name, settings.lane) if running else None
        begun = alerts.open_alerts(session, settings.queue_name)
    return [
        f"work: {gate_in_words(gate)}",
        f"active: {active}",
        f"lane {settings.lane}: {_lane_in_words(closed)}",
        *(f"{state}{' in the last 24 h' if state in TERMINAL else ''}: {count}" for state, count in counts.items()),
        f"orphans: {orphans}",
        f"live workers: {workers}",
        f"replays running: {running}{'' if held_up is None else f'. {HELD_UP[held_up]}'}",
        *(f"alert: {alert.kind}, since {alert.began_at:%Y-%m-%d %H:%M} UTC" for alert in begun),
    ]


def _lane_in_words(closed: Closed | None) -> str:
    if closed is None:
        return "open"
    text = str(closed.state)
    if closed.seconds is not None:
        text += f", ask again in {closed.seconds:.0f} s"
    if closed.category is not None:
        text += f", because: {closed.category}"
    return text
