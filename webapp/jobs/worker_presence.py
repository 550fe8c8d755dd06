"""Checks whether any worker is there to take the waiting jobs."""

from __future__ import annotations

from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from tasks.ledger.delivery import fair_order
from webapp.services import services

LONGER_THAN_USUAL_SECONDS = 30
"""A job that has waited longer than this for a worker counts as late."""


def no_worker_seen(session: Session) -> bool:
    """Return True if no worker of this site's queue was seen lately, so that nobody could take a job."""
    queue = literal(services().settings.queue_name)
    return bool(session.execute(select(fair_order.no_worker_is_there(queue))).scalar_one())
