"""Cursors of paginated lists: each names the last entry that was shown."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

Cursor = tuple[datetime, uuid.UUID]
PATTERN = "^[0-9]{1,16}_[0-9a-f]{32}$"
"""The form of every cursor: microseconds since 1970, and an id."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def after(cursor: Cursor) -> str:
    """Return the cursor for "older than this entry", for a query string."""
    created_at, identity = cursor
    return f"{(created_at - _EPOCH) // _MICROSECOND}_{identity.hex}"


def read(text: str) -> Cursor | None:
    """Parse what `after` returned; None for anything else."""
    if not re.fullmatch(PATTERN, text):
        return None
    microseconds, _, identity = text.partition("_")
    return _EPOCH + int(microseconds) * _MICROSECOND, uuid.UUID(identity)
