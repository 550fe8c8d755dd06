"""The end at the deadline, also where no worker ever was: whoever looks at a job that is late ends it.

Workers sweep, and end such jobs within seconds. With none alive a page would say "waiting" for ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tasks.ledger.jobs import stale, transitions
from tasks.ledger.reports.job_views import JobView
from webapp.database import transaction
from webapp.services import services

AT_ONCE = 50


def enforce(jobs: Iterable[JobView]) -> bool:
    """End those of these jobs that are late. True: some have moved, so what was read of them is no longer so."""
    late = [job.id for job in jobs if not job.finished and job.deadline_at <= job.now]
    return any([_end(job_id) for job_id in late])


def sweep() -> None:
    """End what is late on the whole site, some at once."""
    with transaction() as database:
        late = stale.waiting_past_deadline(database, queue=services().settings.queue_name, limit=AT_ONCE)
    for job_id in late:
        _end(job_id)


def _end(job_id: uuid.UUID) -> bool:
    # Its holder may have gone with the workers; where it lives, neither does anything.
    with transaction() as database:
        expired = transitions.expire(database, job_id, max_interruptions=services().settings.max_interruptions)
    with transaction() as database:
        return (transitions.end_at_deadline(database, job_id) or expired) is not None
