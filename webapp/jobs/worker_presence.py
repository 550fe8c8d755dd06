"""Checks whether any worker is there to take the waiting jobs."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tasks.ledger.reports import job_views
from webapp.services import services

WORKER_SEEN_WITHIN_SECONDS = 60
"""A worker counts as running if its last heartbeat is no older than this."""
LONGER_THAN_USUAL_SECONDS = 30
"""A job that has waited longer than this for a worker counts as late."""


def no_worker_seen(session: Session) -> bool:
    """Return True if no worker of this site's queue was seen lately, so that nobody could take a job."""
    running = job_views.live_workers(
        session, queue=services().settings.queue_name, seen_within_seconds=WORKER_SEEN_WITHIN_SECONDS
    )
    return running == 0
