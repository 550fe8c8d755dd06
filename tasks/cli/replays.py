"""`python -m tasks jobs replay …`: puts failed jobs back from the command line."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from tasks.cli.jobs import NotFound, find, opened
from tasks.cli.messages import HELD_UP, LEFT_ALONE, command_line_user, groups_in_words, progress_in_words
from tasks.ledger.keys import reference_of
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import progress as replays_progress
from tasks.ledger.replays import replays, selection
from tasks.ledger.replays.selection import Choice, Verdict
from tasks.settings import Settings

PER_MINUTE = 20
NEWEST = 20
ALL_LEFT_ALONE = "Nothing is replayed."


def dry_run(settings: Settings, names: Sequence[str], *, category: str | None, code: str | None) -> list[str]:
    """Return lines about what a replay of these jobs would do, by category, without a change."""
    with opened(settings) as database, database.transaction() as session:
        evaluated = selection.evaluate(session, settings.queue_name, _choice(session, names, category, code))
    return [*groups_in_words(selection.grouped(evaluated), would=True), "This was a dry run: nothing was changed."]


def replay(
    settings: Settings,
    names: Sequence[str],
    *,
    category: str | None,
    code: str | None,
    cause: Cause,
    note: str,
    per_minute: int,
) -> list[str]:
    """Put failed jobs back, by name or all of one category: same identity, new deadline. Return lines that say so.

    The first job goes back at once; the workers put the others back in turn.
    """
    with opened(settings) as database, database.transaction() as session:
        choice = _choice(session, names, category, code)
        evaluated = selection.evaluate(session, settings.queue_name, choice)
        lines = groups_in_words(selection.grouped(evaluated), would=False)
        lines += [_line(job) for job in evaluated if names]
        if all(job.why for job in evaluated):
            return [*lines, ALL_LEFT_ALONE]
        replay_id = replays.begin(
            session,
            settings.queue_name,
            choice,
            cause=cause,
            note=note,
            by=command_line_user(),
            per_minute=per_minute,
            terms=settings.replay_terms,
        )
        held_up = replays.wait_reason(session, settings.queue_name, settings.lane)
    lines.append(f"replay {replay_id.hex[:8]}: {per_minute} a minute, by the workers. Watch it with `jobs replays`.")
    return lines if held_up is None else [*lines, HELD_UP[held_up]]


def listed(settings: Settings) -> list[str]:
    """Return a line about the progress of each of the newest replays."""
    with opened(settings) as database, database.transaction() as session:
        found = replays_progress.newest(session, settings.queue_name, limit=NEWEST)
        return [progress_in_words(progress) for progress in found]


def stopped(settings: Settings, name: str, *, note: str | None) -> list[str]:
    """Stop a replay, and return a line about it. `name` is its id, or the start of its id. Raises NotFound."""
    with opened(settings) as database, database.transaction() as session:
        found = replays_progress.named(session, settings.queue_name, name)
        if found is None:
            raise NotFound(f"{name} is no replay, or more than one.")
        replays.stop(session, settings.queue_name, found.id, by=command_line_user(), note=note)
        progress = replays_progress.one(session, settings.queue_name, found.id)
        return [] if progress is None else [progress_in_words(progress)]


def _choice(session: Session, names: Sequence[str], category: str | None, code: str | None) -> Choice:
    return Choice([find(session, name) for name in names], category, code)


def _line(job: Verdict) -> str:
    verdict = "to be replayed" if job.why is None else f"left alone, {LEFT_ALONE[job.why]}"
    return f"{reference_of(job.job_id)}  {verdict}"
