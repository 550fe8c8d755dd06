"""Decides when to poll the provider again for a background response. Pure: the same age gives the same wait."""

from __future__ import annotations

FIRST_WAIT_SECONDS = 2.0
MAX_WAIT_SECONDS = 30.0
PART_OF_AGE = 4
LAST_POLL_SECONDS = 5.0


def poll_delay(age_seconds: float) -> float:
    """Return how many seconds to wait before the next poll of a response of this age.

    The wait is a quarter of the age, so an answer is fetched at most a quarter later than it was ready.
    """
    return min(MAX_WAIT_SECONDS, max(FIRST_WAIT_SECONDS, age_seconds / PART_OF_AGE))


def before_the_deadline(wait_seconds: float, seconds_left: float) -> float:
    """Return the wait, shortened so that the last poll comes shortly before the job's deadline.

    Returns it unchanged once the time of that last poll has passed.
    """
    until_last_poll = seconds_left - LAST_POLL_SECONDS
    return min(wait_seconds, until_last_poll) if until_last_poll > 0 else wait_seconds
