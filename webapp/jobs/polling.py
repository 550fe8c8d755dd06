"""The polling of a job's page: the interval, and the state of the page that a poll names."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass

from flask import g

from tasks.ledger.compiled import CompiledStatement
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.reports.poll import PollState, poll_query, read_poll_state
from tasks.ledger.states import WAITING, State
from tasks.settings import Settings
from webapp.auth import sessions
from webapp.database import reading
from webapp.jobs import messages
from webapp.jobs.worker_presence import LONGER_THAN_USUAL_SECONDS

HANDED_OVER_WITHIN_SECONDS = 2
"""A new job's message normally reaches the queue within this time."""
_POLL_OF_SESSION = CompiledStatement(sessions.restrict_to_session(poll_query()))


@dataclass(frozen=True)
class Poll:
    """Represents the next poll: when the page sends it, and the state of the page that it names.

    `tier` names everything that may change on the page while the row stays as it is. `said` names the last
    announcement to a screen reader, so that only news is announced.
    """

    revision: int
    seconds: int
    tier: str
    said: str


def is_unchanged(job_id: uuid.UUID, revision: int | None, tier: str, settings: Settings) -> bool:
    """Return True if a page of the signed-in account would show again what it shows, read with a single statement.

    Returns False also where there is no such job or no valid session, so that the whole request finds out which.
    """
    proof = sessions.parameters_of_session()
    if proof is None or revision is None:
        return False
    with reading() as connection:
        row = _POLL_OF_SESSION.execute(connection, job_id=job_id, queue=settings.queue_name, **proof).one_or_none()
    if row is None:
        return False
    g.account_id = proof["account_id"]  # the session was valid, so the log may name it
    state = read_poll_state(row)
    return state.revision == revision and state.seconds_to_deadline > 0 and poll_tier(state, settings) == tier


def poll_of(poll_state: PollState, job: JobView, settings: Settings) -> Poll | None:
    """Return how the page of this job polls; None if the job is finished and nothing changes by itself any more."""
    if job.finished:
        return None
    return Poll(
        # The row was read twice. The earlier revision is named, so that a change in between is polled for.
        revision=poll_state.revision,
        seconds=poll_interval(poll_state, settings),
        tier=poll_tier(poll_state, settings),
        said=announcement_key(job),
    )


def announcement_key(job: JobView) -> str:
    """Return a word that changes when a screen reader has something new to announce about the job."""
    return f"{job.state}-{job.attempt}"


def poll_interval(poll_state: PollState, settings: Settings) -> int:
    """Return the seconds between two polls: few in the first minute, then more.

    While the job waits to be tried again, the interval gets shorter towards that time.
    """
    if poll_state.state is State.RETRY_WAIT:
        return min(15, max(2, math.ceil(poll_state.seconds_to_attempt or 0)))
    if poll_state.state is State.CANCEL_REQUESTED:
        return 2
    age = settings.job_deadline_seconds - poll_state.seconds_to_deadline  # a replay starts the clock again
    if age < 60:
        return 2
    return 5 if age < 600 else 15


def poll_tier(poll_state: PollState, settings: Settings) -> str:
    """Return everything but the revision that the page depends on, as one word."""
    words = [str(poll_interval(poll_state, settings))]
    if poll_state.paused:
        return "-".join([*words, "paused"])
    if is_late(poll_state):
        words.append(str(int((poll_state.seconds_overdue or 0) // 60)))
        if poll_state.no_worker:
            return "-".join([*words, "none"])
    if is_queue_away(poll_state):
        words.append("away")
    if poll_state.jobs_before:
        words.append(f"before{min(poll_state.jobs_before, messages.MOST_COUNTED + 1)}")
    return "-".join(words)


def is_late(poll_state: PollState) -> bool:
    """Return True if the job has waited for a worker for longer than usual."""
    overdue = poll_state.seconds_overdue
    return poll_state.state in WAITING and overdue is not None and overdue > LONGER_THAN_USUAL_SECONDS


def is_queue_away(poll_state: PollState) -> bool:
    """Return True if the queue cannot be reached: a message was due at once and has not been delivered.

    No message is due for a job that waits for its turn. This app sends the first message of a job. Workers send the
    later ones, so a missing later message proves something only while a worker is there.
    """
    if poll_state.state is not State.QUEUED or not poll_state.undelivered or poll_state.others_sent:
        return False
    if poll_state.seconds_overdue is None or poll_state.seconds_overdue <= HANDED_OVER_WITHIN_SECONDS:
        return False
    return poll_state.deliveries == 1 or not poll_state.no_worker
