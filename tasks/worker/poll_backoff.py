"""When to ask the provider again about what it works on. Pure: the same age gives the same wait."""

from __future__ import annotations

FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 30.0
PART_OF_AGE = 4
LAST_LOOK_SECONDS = 5.0


def poll_delay(age_seconds: float) -> float:
    """How long to wait, after a look at something that is going on for so long.

    A quarter of its age: so an answer is fetched at the latest a quarter later than it was there.
    """
    return min(LONGEST_WAIT_SECONDS, max(FIRST_WAIT_SECONDS, age_seconds / PART_OF_AGE))


def before_the_deadline(wait_seconds: float, seconds_left: float) -> float:
    """The wait, cut so that a last look is taken shortly before the job's time is over; whole once that has been."""
    until_last_look = seconds_left - LAST_LOOK_SECONDS
    return min(wait_seconds, until_last_look) if until_last_look > 0 else wait_seconds
