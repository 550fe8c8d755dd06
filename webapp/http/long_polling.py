"""Lets requests wait for a job to change. They are limited so that they never use up the web threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

LONGEST_WAIT_SECONDS = 25
"""Below the 30 s after which many hosts cut a request off."""
POLL_SECONDS = 0.5


class Ended(StrEnum):
    """Reasons why a long poll ended, as sent in the header `Waybill-Wait`."""

    CHANGED = "changed"
    FINISHED = "finished"  # the job has ended, so nothing more will change by itself
    TIME_OVER = "time-over"
    FULL = "full"  # the limit of waiting requests is reached
    STOPPING = "stopping"  # this process is shutting down


class LongPollSlots:
    """Limits the requests that wait in one process to `most`. `stopping` tells if the process is shutting down."""

    def __init__(self, limit: int) -> None:
        self._slots = threading.BoundedSemaphore(limit)
        self.stopping: Callable[[], bool] = lambda: False

    def wait(self, changed: Callable[[], bool], seconds: float) -> Ended:
        """Poll until `changed` returns True, or until the time is over.

        `changed` must hold no connection between calls.
        """
        if not self._slots.acquire(blocking=False):
            return Ended.FULL
        try:
            return self._wait(changed, time.monotonic() + seconds)
        finally:
            self._slots.release()

    def _wait(self, changed: Callable[[], bool], until: float) -> Ended:
        while not self.stopping():
            if changed():
                return Ended.CHANGED
            left = until - time.monotonic()
            if left <= 0:
                return Ended.TIME_OVER
            time.sleep(min(POLL_SECONDS, left))
        return Ended.STOPPING
