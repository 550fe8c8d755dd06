"""Where a page of a list goes on: after the last entry that was shown."""

from __future__ import annotations

import uuid
from datetime import datetime

from tasks.ledger.queries import JobView

Cursor = tuple[datetime, uuid.UUID]


def after(job: JobView) -> str:
    """The text that stands for "older than this one" in an address."""
    return at(job.created_at, job.id)


def at(created_at: datetime, identity: uuid.UUID) -> str:
    """The same for whatever has an id and was made at a moment."""
    return f"{created_at.isoformat().replace('+00:00', 'Z')}_{identity.hex}"


def read(text: str) -> Cursor | None:
    """What `after` made; None for anything else."""
    instant, _, identity = text.partition("_")
    try:
        created_at = datetime.fromisoformat(instant)
        return None if created_at.tzinfo is None else (created_at, uuid.UUID(identity))
    except (ValueError, OverflowError):
        return None
