"""Waiting for what is to become true. A drill never waits for a time to pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY_SECONDS = 0.05
WITHIN_SECONDS = 25.0


class DrillFailed(Exception):
    """What was to be true is not; the message says it in the table."""


class Interrupted(Exception):
    """Somebody wants the drills to end now."""


def wait_until(
    fact: Callable[[], T], what: str, *, stopping: threading.Event, within_seconds: float = WITHIN_SECONDS
) -> T:
    """Ask until the answer is true, and give it. Raises DrillFailed when it stays untrue, Interrupted when stopped."""
    until = monotonic() + within_seconds
    while True:
        found = fact()
        if found:
            return found
        if stopping.wait(LOOK_EVERY_SECONDS):
            raise Interrupted
        if monotonic() > until:
            raise DrillFailed(f"not within {within_seconds:g} s: {what}")
