"""What to do after an attempt went wrong. Pure: the same facts give the same decision."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tasks.ledger.errors import Category

TRANSIENT = frozenset(
    {
        Category.RATE_LIMITED,
        Category.OVERLOADED,
        Category.CONNECTION,
        Category.TIMEOUT,
        Category.CRASHED,
        Category.INTERNAL,
    }
)
"""Causes that may be gone the next time. Everything else stays as it is until a person does something."""

FIRST_DELAY_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 60.0
UNKNOWN_CALLS_ALLOWED = 1


@dataclass(frozen=True)
class Facts:
    """What the decision rests on.

    `attempts` counts the one that just ended. `unknown_calls` are calls of this job that may have been billed without
    an answer, this one included. `retry_after_seconds` is the least the provider asks to wait, None if it asks nothing.
    """

    category: Category
    code: str | None
    attempts: int
    max_attempts: int
    unknown_calls: int
    deadline: datetime
    now: datetime
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class RetryIn:
    """Try again after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Stop:
    """End the job, with this cause."""

    category: Category
    code: str | None


def decide(facts: Facts, draw: Callable[[float, float], float] = random.uniform) -> RetryIn | Stop:
    """Retry, and when, or stop, and why.

    A provider's delay is a floor and is never undercut. Else exponential backoff with full jitter
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). A wait that ends past the deadline
    stops the job now, since trying earlier than asked would only burn the attempt.
    """
    if facts.category is Category.UNCERTAIN:
        if facts.unknown_calls > UNKNOWN_CALLS_ALLOWED:
            return Stop(facts.category, facts.code)
    elif facts.category not in TRANSIENT:
        return Stop(facts.category, facts.code)
    if facts.attempts >= facts.max_attempts:
        return Stop(facts.category, facts.code)
    delay = _delay(facts, draw)
    if facts.now + timedelta(seconds=delay) >= facts.deadline:
        code = "asked_to_wait_too_long" if facts.retry_after_seconds else "no_time_for_another_attempt"
        return Stop(Category.DEADLINE, code)
    return RetryIn(delay)


def _delay(facts: Facts, draw: Callable[[float, float], float]) -> float:
    ceiling = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** (facts.attempts - 1))
    if facts.retry_after_seconds is not None:
        return facts.retry_after_seconds
    return draw(0.0, ceiling)
