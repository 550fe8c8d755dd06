"""The log of a job as its owner reads it, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tasks.i18n import _, lazy
from tasks.ledger.models import JobEvent
from tasks.ledger.states import Event, State
from webapp.jobs.messages import OWNER_TRIES_AGAIN, failure_of


@dataclass(frozen=True)
class TimelineLine:
    """Represents one event in the log. `until` is when the next try is due, None if the line is not about one."""

    at: datetime
    text: str
    until: datetime | None = None


def visible_events(events: Iterable[JobEvent]) -> Iterator[JobEvent]:
    """Yield the events that the owner sees.

    A job that waits is claimed and released again at each look. Only the first of these releases is shown, because the
    others say nothing new.
    """
    waits = False
    for event in events:
        waits_now = event.event == Event.RELEASE and event.facts.get("reason") in _WAITS
        if waits and (waits_now or event.event == Event.CLAIM):
            continue
        waits = waits_now
        yield event


def timeline_line(event: JobEvent, made: str | None = None) -> TimelineLine | None:
    """Return the line for an event; None for an event that only matters to the system.

    `made` is the title of the saved result, or None for the general one.
    """
    text = _log_text(Event(event.event), State(event.state), event.facts, made or _("Result"))
    until = event.facts.get("until") if event.state == State.RETRY_WAIT else None
    return None if text is None else TimelineLine(event.at, text, datetime.fromisoformat(until) if until else None)


def who_did(event: JobEvent) -> str:
    """Return who caused the event, as an operator reads it; empty if the system did."""
    by = event.facts.get("by")
    if isinstance(by, str):
        return by
    by_owner = event.event in (Event.RECORD, Event.CANCEL) or event.facts.get("cause") == OWNER_TRIES_AGAIN
    return "its owner" if by_owner else ""


UNCOUNTED = lazy("This doesn’t count as an attempt.")
_RELEASES: Mapping[str, str] = {
    "shutdown": lazy("Returned to the queue unfinished, because the worker had to stop."),
    "continue": lazy("Returned to the queue with the finished parts saved. The rest is done next."),
    "lane": lazy("Returned to the queue, because the AI service isn’t accepting requests right now."),
    "no_reader": lazy("Returned to the queue, because other documents are being read first."),
    "no_place": lazy("Returned to the queue, because we reached our limit of parallel requests to the AI service."),
}
_UNFINISHED = lazy("Returned to the queue unfinished.")
_SILENT = lazy("The worker stopped responding. Another one takes over.")
_WAITS = frozenset({"waits_at_provider", "no_place"})


def _log_text(event: Event, state: State, facts: Mapping[str, Any], made: str) -> str | None:
    if event is Event.CANCEL:
        at_once = state is State.CANCELLED
        return _("You cancelled the job.") if at_once else _("You asked to cancel. The worker was told to stop.")
    if state is State.CANCELLED:
        return _("The work was stopped. Nothing of it was saved.")
    cause = failure_of(facts.get("category"), facts.get("code")).what
    words = {
        Event.RECORD: _("Accepted and waiting for a free worker."),
        Event.CLAIM: _(
            "Attempt %(number)s of %(most)s started.", number=facts.get("attempt", 1), most=facts.get("of", "?")
        ),
        Event.SUCCEED: _saved(made, cut_off=bool(facts.get("cut_off"))),
        Event.RETRY_LATER: cause,
        Event.FAIL: _("Failed. %(cause)s", cause=cause),
        Event.RELEASE: _("Sent to the AI service, which is working on it.")
        if facts.get("reason") == "waits_at_provider"
        else f"{_RELEASES.get(facts.get('reason', ''), _UNFINISHED)} {UNCOUNTED}",
        Event.EXPIRE: f"{_SILENT} {UNCOUNTED}",
        Event.REPLAY: _("You asked to try again.")
        if facts.get("cause") == OWNER_TRIES_AGAIN
        else _("The operator started it again."),
        Event.INSPECT: _("The operator of this site opened your document."),
    }
    return words.get(event)


def _saved(made: str, *, cut_off: bool) -> str:
    if not cut_off:
        return _("%(made)s saved.", made=made)
    return _(
        "%(made)s saved, marked as incomplete: the answer was cut off by the AI service's length limit.", made=made
    )
