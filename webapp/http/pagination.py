"""Where a page of a list goes on: after the last entry that was shown."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

Cursor = tuple[datetime, uuid.UUID]
PATTERN = "^[0-9]{1,16}_[0-9a-f]{32}$"
"""Every text of this form is a cursor: microseconds since 1970, and an id."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def after(cursor: Cursor) -> str:
    """The text that stands for "older than this one" in an address."""
    created_at, identity = cursor
    return f"{(created_at - _EPOCH) // _MICROSECOND}_{identity.hex}"


def read(text: str) -> Cursor | None:
    """What `after` made; None for anything else."""
    if not re.fullmatch(PATTERN, text):
        return None
    microseconds, _, identity = text.partition("_")
    return _EPOCH + int(microseconds) * _MICROSECOND, uuid.UUID(identity)
