"""Parses the wait that a server asks its client for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the wait in seconds, without an upper limit; None if the headers ask for none.

    `retry-after-ms` wins over `retry-after`, which holds seconds or an HTTP-date; zero, negative and invalid values are
    ignored. The order is that of the SDK, so that servers see the same behaviour. Unlike the SDK we set no limit, since
    no thread sleeps through the wait.
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
        at = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:  # RFC 5322: "-0000" is UTC, with an unknown local time zone
        at = at.replace(tzinfo=UTC)
    seconds = (at - now).total_seconds()
    return seconds if seconds > 0 else None
