"""Where a page of a list goes on: after the last job that was shown."""

from __future__ import annotations

import uuid
from datetime import datetime

Cursor = tuple[datetime, uuid.UUID]


def after(cursor: Cursor) -> str:
    """The text that stands for "older than this one" in an address."""
    return f"{cursor[0].isoformat().replace('+00:00', 'Z')}_{cursor[1].hex}"


def read(text: str) -> Cursor | None:
    """What `after` made; None for anything else."""
    instant, _, identity = text.partition("_")
    try:
        created_at = datetime.fromisoformat(instant)
        return None if created_at.tzinfo is None else (created_at, uuid.UUID(identity))
    except (ValueError, OverflowError):
        return None
