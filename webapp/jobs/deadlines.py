"""Fails overdue jobs when they are read, so that deadlines hold even when no worker is running.

Workers sweep for overdue jobs and fail them within seconds. Without a worker, a page would say "waiting" for ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tasks.ledger.jobs import deadlines as job_deadlines
from tasks.ledger.jobs import stale, transitions
from tasks.ledger.reports.job_views import JobView
from webapp.database import transaction
from webapp.services import services

AT_ONCE = 50
"""The most jobs that one sweep fails."""


def enforce(jobs: Iterable[JobView]) -> bool:
    """Fail those of these jobs that are overdue.

    Returns True if the state of any has changed, so that the caller must read the jobs again.
    """
    overdue = [job.id for job in jobs if not job.finished and job.deadline_at <= job.now]
    return any([_fail(job_id) for job_id in overdue])  # a list, so that every job is failed


def sweep() -> None:
    """Fail overdue jobs of the whole site, at most `AT_ONCE`."""
    with transaction() as database:
        overdue = stale.waiting_past_deadline(database, queue=services().settings.queue_name, limit=AT_ONCE)
    for job_id in overdue:
        _fail(job_id)


def _fail(job_id: uuid.UUID) -> bool:
    # The worker that claimed the job may be gone, so its lease is ended first. While that worker lives, neither call
    # does anything.
    with transaction() as database:
        expired = transitions.expire(database, job_id, max_interruptions=services().settings.max_interruptions)
    with transaction() as database:
        return (job_deadlines.end_at_deadline(database, job_id) or expired) is not None
