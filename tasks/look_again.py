"""When to ask the provider again about what it works on. Pure: the same age gives the same wait."""

from __future__ import annotations

FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 30.0
PART_OF_AGE = 4


def look_again_in(age_seconds: float) -> float:
    """How long to wait, after a look at something that is going on for so long.

    A quarter of its age: so an answer is fetched at the latest a quarter later than it was there.
    """
    return min(LONGEST_WAIT_SECONDS, max(FIRST_WAIT_SECONDS, age_seconds / PART_OF_AGE))
