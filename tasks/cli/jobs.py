"""`python -m tasks jobs …`: lets an operator list, show, cancel, export and import jobs on the command line."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TextIO

from sqlalchemy.orm import Session

from tasks import backup
from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.ledger.keys import reference_of
from tasks.ledger.models import JobEvent
from tasks.ledger.reports import job_search, job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import State
from tasks.settings import Settings


class NotDone(Exception):
    """Raised when a command cannot be done. The message says why, and what to do."""


class NotFound(NotDone):
    """Raised when no job, or more than one, has this id or reference."""


def listed(settings: Settings, *, state: State | None, category: str | None, limit: int) -> list[str]:
    """Return the newest matching jobs, a line each: reference, state, cause, age, id. Titles are private."""
    with opened(settings) as database, database.transaction() as session:
        return [_line(job) for job in job_views.jobs(session, state=state, category=category, limit=limit)]


def shown(settings: Settings, name: str) -> list[str]:
    """Return the lines that show one job with its attempts, calls and events."""
    with opened(settings) as database, database.transaction() as session:
        job_id = find(session, name)
        job = job_views.any_job(session, job_id)
        assert job is not None, "it was found a moment ago, in this transaction"
        lines = [_line(job), f"attempt {job.attempt} of {job.max_attempts}, deadline {job.deadline_at:%F %T %Z}"]
        for attempt in job_views.attempts_of(session, job_id):
            cause = f" {attempt.error_category}" if attempt.error_category else ""
            lines.append(
                f"  attempt {attempt.number}, generation {attempt.generation}, {attempt.worker}, "
                f"{attempt.started_at:%T}: {attempt.outcome or 'running'}{cause}"
            )
        for call in job_views.calls_of(session, job_id):
            tokens = "not reported" if call.input_tokens is None else f"{call.input_tokens}+{call.output_tokens} tokens"
            lines.append(
                f"  call {call.step}, {call.started_at:%T}: {call.outcome} {call.error_code or ''} "
                f"http {call.http_status or '-'} request {call.request_id or '-'} {tokens}"
            )
        lines += [_event_line(event) for event in job_views.events_of(session, job_id)]
        return lines


def cancelled(settings: Settings, name: str) -> list[str]:
    """Cancel a job, as its owner would, and return the line that shows its state."""
    with opened(settings) as database, database.transaction() as session:
        job_id = find(session, name)
        state = transitions.cancel(session, job_id, job_views.owner_of(session, job_id))
        return [f"{reference_of(job_id)}  {state or 'too late'}"]


def exported(settings: Settings, out: TextIO) -> None:
    """Write every row of the site, a line each. Raises NotDone if `out` is a terminal: it holds users' documents."""
    if out.isatty():
        raise NotDone("This writes every document. Send it to a file: python -m tasks jobs export > waybill.jsonl")
    with opened(settings) as database:
        for line in backup.exported(database):
            out.write(line + "\n")
        out.flush()


def imported(settings: Settings, lines: Iterable[str]) -> list[str]:
    """Fill an empty database with an export, and return a line for each table. Raises NotDone."""
    with opened(settings) as database:
        try:
            return [f"{table}: {count}" for table, count in backup.restore(database, lines).items()]
        except backup.NotImported as error:
            raise NotDone(str(error)) from None


def opened(settings: Settings) -> Database:
    """Return the database for a command. Raises SettingsWrong if it does not answer."""
    database = Database(settings, "waybill-ops")
    database.require()
    return database


def find(session: Session, name: str) -> uuid.UUID:
    """Return the job with this id or reference. Raises NotFound."""
    found = job_search.named(session, name)
    if found is None:
        raise NotFound(f"{name} is neither an id nor a reference like WB-7K3F-92QD.")
    if len(found) != 1:
        raise NotFound(f"{name} is {'no job' if not found else 'more than one job: use the id'}.")
    return found[0]


def _event_line(event: JobEvent) -> str:
    details = [
        f"{key} {event.facts[key]}" for key in ("by", "cause", "category", "code", "reason") if key in event.facts
    ]
    return f"  {event.at:%F %T} {event.event} → {event.state}{': ' if details else ''}{', '.join(details)}"


def _line(job: JobView) -> str:
    cause = f"{job.error_category}/{job.error_code or '-'}" if job.error_category else "-"
    minutes = int((job.now - job.created_at).total_seconds() // 60)
    return f"{reference_of(job.id)}  {job.state:<16}  {cause:<32}  {minutes:>6} min  {job.id}"
