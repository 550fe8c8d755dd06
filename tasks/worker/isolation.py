"""Lets a job that may have ended its worker be read alone in this process, with no other job beside it.

Such a suspect waits until the others have ended, and others wait until it has been read. If it ends the process again,
it costs nobody else anything, and it is certain that it was the cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Isolation:
    """Counts the jobs that this process works on, and lets one in alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._beside_others = 0
        self._alone = 0  # waiting, or in

    @contextmanager
    def beside_others(self, *, timeout: float) -> Iterator[bool]:
        """Enter the block when no suspect is in or waits. Yields False, and enters nothing, if that takes too long."""
        with self._changed:
            entered = self._changed.wait_for(lambda: self._alone == 0, timeout)
            self._beside_others += entered
        try:
            yield entered
        finally:
            if entered:
                self._leave()

    @contextmanager
    def alone(self, *, timeout: float) -> Iterator[Callable[[], None] | None]:
        """Enter the block when all others have left it. Yields a function that lets others in again.

        Yields None, and enters nothing, if the others do not leave in time.
        """
        with self._changed:
            self._alone += 1
            entered = self._changed.wait_for(lambda: self._beside_others == 0, timeout)
            self._beside_others += entered
            if not entered:
                self._end_of_alone()
        ended = threading.Event()

        def let_others_in() -> None:
            with self._changed:
                if not ended.is_set():
                    ended.set()
                    self._end_of_alone()

        try:
            yield let_others_in if entered else None
        finally:
            if entered:
                let_others_in()
                self._leave()

    def _end_of_alone(self) -> None:
        self._alone -= 1
        self._changed.notify_all()

    def _leave(self) -> None:
        with self._changed:
            self._beside_others -= 1
            self._changed.notify_all()
