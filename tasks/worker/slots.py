"""The slots of a worker: they limit how many deliveries run at once, each in a daemon thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Slots:
    """Counts running deliveries. A slot is taken before its work is known, and given back when the work is over."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = threading.Semaphore(count)
        self._busy = 0
        self._changed = threading.Condition()

    def take(self, timeout: float) -> bool:
        """Wait for a free slot and take it. Return False if none was free in time."""
        if not self._free.acquire(timeout=timeout):
            return False
        with self._changed:
            self._busy += 1
        return True

    def give_back(self) -> None:
        """Make the slot free again."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        self._free.release()

    def run(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread, in a slot that was taken, and give the slot back at the end.

        The thread is a daemon: if it never returns, it must not keep the process from ending.
        """

        def slot() -> None:
            try:
                work()
            finally:
                self.give_back()

        threading.Thread(target=slot, name="slot", daemon=True).start()

    @property
    def busy(self) -> int:
        """Return how many slots are taken."""
        with self._changed:
            return self._busy

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until every slot is free. Return False if some were not free in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, timeout)
