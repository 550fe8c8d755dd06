"""Requests that wait for a job to change. They are few, so that they never use up the web threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

LONGEST_WAIT_SECONDS = 25
"""Less than the 30 s after which many hosts cut a request off."""
LOOKS_EVERY_SECONDS = 0.5


class Ended(StrEnum):
    """Why a waiting request was answered. Sent in the header `Waybill-Wait`."""

    CHANGED = "changed"
    FINISHED = "finished"  # the job has ended, so nothing more will change by itself
    TIME_OVER = "time-over"
    FULL = "full"  # as many wait already as may
    STOPPING = "stopping"  # this process was told to stop


class LongPollSlots:
    """The places to wait in one process: `most` at a time. `stopping` says whether the process was told to end."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)
        self.stopping: Callable[[], bool] = lambda: False

    def wait(self, changed: Callable[[], bool], seconds: float) -> Ended:
        """Ask again and again until the answer is yes, for that long at most. `changed` must hold nothing between."""
        if not self._places.acquire(blocking=False):
            return Ended.FULL
        try:
            return self._wait(changed, time.monotonic() + seconds)
        finally:
            self._places.release()

    def _wait(self, changed: Callable[[], bool], until: float) -> Ended:
        while not self.stopping():
            if changed():
                return Ended.CHANGED
            left = until - time.monotonic()
            if left <= 0:
                return Ended.TIME_OVER
            time.sleep(min(LOOKS_EVERY_SECONDS, left))
        return Ended.STOPPING
