"""Parses the wait that a server asks its client for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 24 * 3600.0


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the wait in seconds, at most a day; None if the headers ask for none.

    `retry-after-ms` wins over `retry-after`, which holds seconds or an HTTP-date; zero, negative and invalid values are
    ignored. The order is that of the SDK, so that servers see the same behaviour. Unlike the SDK we allow long waits,
    since no thread sleeps through them: https://github.com/openai/openai-python/pull/3555 . But one odd value, such as
    a date ten years ahead, must not close a site.
    """
    milliseconds = _positive(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, MAX_SECONDS)
    value = headers.get("retry-after")
    seconds = _positive(value)
    if seconds is None:
        seconds = _seconds_until(value, now or datetime.now(UTC))
    return None if seconds is None else min(seconds, MAX_SECONDS)


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
