"""Waits until a fact becomes true. A drill never waits for a fixed time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY_SECONDS = 0.05
WITHIN_SECONDS = 25.0


class DrillFailed(Exception):
    """Raised when an expected fact is not true. The table shows the message."""


class NotPlayed(Exception):
    """Raised when this host lacks what the drill needs. The message says what; nothing is wrong with the site."""


class Interrupted(Exception):
    """Raised when the drills must end now."""


def wait_until(
    fact: Callable[[], T], what: str, *, stopping: threading.Event, within_seconds: float = WITHIN_SECONDS
) -> T:
    """Evaluate `fact` until it is true, and return it. Raises DrillFailed when time is up, Interrupted when stopped."""
    until = monotonic() + within_seconds
    while True:
        found = fact()
        if found:
            return found
        if stopping.wait(LOOK_EVERY_SECONDS):
            raise Interrupted
        if monotonic() > until:
            raise DrillFailed(f"not within {within_seconds:g} s: {what}")
