"""Decides whether a failed attempt is retried, and when. Pure: the same facts give the same decision."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tasks.ledger.calls.calls import LOST_CALLS_ALLOWED
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
"""Lists the causes that may be gone at the next attempt. All others remain until a person acts."""

FIRST_DELAY_SECONDS = 2.0
MAX_DELAY_SECONDS = 60.0


@dataclass(frozen=True)
class Facts:
    """Holds the facts that the decision is based on.

    `attempts` counts those that count, with the one that just ended if `counts`: a request that was refused before any
    work was done does not, since nothing can have been billed. `failures` is how often the job has failed in a row,
    counted or not. `lost_calls` is the most calls of one step that may have been billed without an answer, with the
    last call. `attempt_seconds` is what a whole attempt may take. `retry_after_seconds` is the shortest wait that the
    provider asks for, None if it asks for none.
    """

    category: Category
    code: str | None
    counts: bool
    attempts: int
    max_attempts: int
    failures: int
    lost_calls: int
    deadline: datetime
    now: datetime
    attempt_seconds: float
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class RetryIn:
    """Represents the decision to try again after this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Stop:
    """Represents the decision to fail the job with this cause."""

    category: Category
    code: str | None


def decide(facts: Facts, draw: Callable[[float, float], float] = random.uniform) -> RetryIn | Stop:
    """Decide between a retry, with its delay, and the end of the job, with its cause.

    A delay that the provider asks for is a minimum and is never shortened. Otherwise the delay is exponential backoff
    with full jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). If the wait would end
    past the deadline, the job fails now, since retrying earlier than the provider asked would only waste the attempt.
    What was refused before any work was done is tried on for as long as a whole attempt fits before the deadline.
    """
    if facts.category is Category.UNCERTAIN:
        if facts.lost_calls > LOST_CALLS_ALLOWED:
            return Stop(facts.category, facts.code)
    elif facts.category not in TRANSIENT:
        return Stop(facts.category, facts.code)
    if facts.counts and facts.attempts >= facts.max_attempts:
        return Stop(facts.category, facts.code)
    delay = _delay(facts, draw)
    at = facts.now + timedelta(seconds=delay)
    # What was refused unbilled ends with its own cause, whatever delay was drawn: the cause must not depend on chance.
    if at >= facts.deadline and (facts.counts or facts.retry_after_seconds):
        code = "asked_to_wait_too_long" if facts.retry_after_seconds else "no_time_for_another_attempt"
        return Stop(Category.DEADLINE, code)
    if not facts.counts and at + timedelta(seconds=facts.attempt_seconds) > facts.deadline:
        return Stop(facts.category, facts.code)
    return RetryIn(delay)


def _delay(facts: Facts, draw: Callable[[float, float], float]) -> float:
    ceiling = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(facts.failures - 1, 10))
    if facts.retry_after_seconds is not None:
        return facts.retry_after_seconds
    return draw(0.0, ceiling)
