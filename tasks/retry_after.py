"""How long a server asks its client to stay away."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """The wait in seconds, however long; None when there is none to honour.

    `retry-after-ms` wins over `retry-after`, which holds seconds or an HTTP-date; zero, negative and odd values count
    as not said. The order is the SDK's own, so that a server meets the same manners; unlike the SDK we set no limit,
    since nobody here sleeps through the wait.
    https://github.com/openai/openai-python/pull/3555
    """
    milliseconds = _positive(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _positive(value)
    return seconds if seconds is not None else _seconds_until(value, now or datetime.now(UTC))


def _positive(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def _seconds_until(value: str | None, now: datetime) -> float | None:
    try:
        instant = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    if instant.tzinfo is None:  # "-0000": UTC, says RFC 5322, of an unknown place
        instant = instant.replace(tzinfo=UTC)
    seconds = (instant - now).total_seconds()
    return seconds if seconds > 0 else None
