"""The slots of a worker: so many deliveries at once, each in a thread that nobody waits for at exit."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Slots:
    """Counts what is being worked on. A slot is taken before its work is known, and given back when that is over."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = threading.Semaphore(count)
        self._busy = 0
        self._changed = threading.Condition()

    def take(self, timeout: float) -> bool:
        """Wait for a free slot. False if there was none in time."""
        if not self._free.acquire(timeout=timeout):
            return False
        with self._changed:
            self._busy += 1
        return True

    def give_back(self) -> None:
        """The slot is free again."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        self._free.release()

    def run(self, work: Callable[[], object]) -> None:
        """Work in a thread, in a slot that was taken, and give it back at the end.

        The thread is a daemon: one that does not come back must not keep the process from ending.
        """

        def slot() -> None:
            try:
                work()
            finally:
                self.give_back()

        threading.Thread(target=slot, name="slot", daemon=True).start()

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        with self._changed:
            return self._busy

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until every slot is free. False if some were not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, timeout)
