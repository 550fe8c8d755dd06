"""The pool of one or two warm child processes, shared by all slots of a worker.

A child that died, overran its time or was aborted is killed and replaced in the background; the document that caused it
is refused. One thread starts all children and lives as long as the pool, because Linux ends a child when the thread
that created it ends, and slots come and go.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict
from typing import Any

from tasks.intake.errors import DocumentRefused, ReadCancelled, Refusal
from tasks.intake.file_types import Kind
from tasks.intake.sandbox.process import Child, ChildDied, ChildOverran
from tasks.intake.sandbox.protocol import BrokenMessage, Ending
from tasks.intake.types import Limits, Reading
from tasks.ledger.errors import Category, JobError

_STEP_SECONDS = 0.25
_START_SECONDS = 20.0
_LATE_SECONDS = 5.0
_MAX_FAILED_STARTS = 3
_BYTES_PER_CHAR = 4  # the most that UTF-8 needs
_ENDINGS: dict[int, Refusal] = {
    Ending.TOO_SLOW: Refusal.TOO_SLOW,
    Ending.TOO_MUCH_MEMORY: Refusal.TOO_MUCH_MEMORY,
    Ending.DAMAGED: Refusal.DAMAGED,
}


class IntakePool:
    """Reads documents in child processes. Safe to use from any number of threads; starts nothing until the first read.

    `size` is the number of documents that can be read at the same time; further documents wait.
    """

    def __init__(self, size: int = 1) -> None:
        if not 1 <= size <= 2:
            raise ValueError("an intake pool has one or two children")
        self._size = size
        self._changed = threading.Condition()
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._failed_starts = 0

    def read(
        self, data: bytes, filename: str | None, limits: Limits, cancelled: threading.Event | None = None
    ) -> Reading:
        """Return the text and facts of `data`.

        Raises DocumentRefused if the document is the reason; ReadCancelled if `cancelled` was set or the pool was
        closed meanwhile; JobError (internal, `intake_unavailable`) if no child can be started on this host.
        """
        try:
            return self._read_once(data, filename, limits, cancelled)
        except ChildDied as died:
            if died.code in _ENDINGS:
                raise DocumentRefused(_ENDINGS[died.code]) from None
        # The child was killed from outside, which says nothing about the document: try once more, with another child.
        try:
            return self._read_once(data, filename, limits, cancelled)
        except ChildDied as died:
            raise DocumentRefused(_ENDINGS.get(died.code, Refusal.DAMAGED)) from None

    def close(self) -> None:
        """End all children. Reads in progress and all later reads raise ReadCancelled."""
        self._closing.set()
        with self._changed:
            children, self._children = self._children, set()
            self._idle.clear()
            self._changed.notify_all()
            keeper = self._keeper
        for child in children:
            if child.busy_until is None:
                child.kill()
        if keeper is not None:
            keeper.join()

    def _read_once(
        self, data: bytes, filename: str | None, limits: Limits, cancelled: threading.Event | None
    ) -> Reading:
        child = self._take(limits, cancelled)
        good = False
        try:
            header = {"filename": filename, "limits": asdict(limits)}
            max_bytes = _BYTES_PER_CHAR * limits.max_chars
            response, text = child.ask(header, data, max_bytes, limits.wall_seconds, _Either(cancelled, self._closing))
            good = True
            return _parse_response(response, text)
        except ChildOverran:
            raise DocumentRefused(Refusal.TOO_SLOW) from None
        except BrokenMessage:
            raise DocumentRefused(Refusal.DAMAGED) from None
        finally:
            # Also if another thread raised an exception in this one: otherwise the child would stay busy forever.
            self._give_back(child, good)

    def _take(self, limits: Limits, cancelled: threading.Event | None) -> Child:
        with self._changed:
            if self._keeper is None and not self._closing.is_set():
                self._keeper = threading.Thread(target=self._keep, name="intake-keeper", daemon=True)
                self._keeper.start()
            while True:
                if self._closing.is_set() or (cancelled is not None and cancelled.is_set()):
                    raise ReadCancelled
                if self._idle:
                    child = self._idle[-1]
                    # Before it leaves the list: an exception raised by another thread must not leave it unlimited.
                    child.busy_until = time.monotonic() + limits.wall_seconds + _LATE_SECONDS
                    self._idle.pop()
                    return child
                if self._failed_starts >= _MAX_FAILED_STARTS and not self._children:
                    raise JobError(Category.INTERNAL, "intake_unavailable")
                self._changed.wait(_STEP_SECONDS)

    def _give_back(self, child: Child, good: bool) -> None:
        if not good:
            child.kill()
        with self._changed:
            if good and child in self._children:
                child.busy_until = None
                self._idle.append(child)
            else:
                self._children.discard(child)
            self._changed.notify_all()

    def _keep(self) -> None:
        """Keep `size` children alive until the pool is closed."""
        while not self._closing.is_set():
            self._drop_lost_children()
            with self._changed:
                if len(self._children) >= self._size:
                    self._changed.wait(1.0)
                    continue
            child = self._start_child()
            if child is None:
                self._closing.wait(min(0.1 * 2**self._failed_starts, 5.0))

    def _start_child(self) -> Child | None:
        child = None
        try:
            child = Child()
            child.wait_until_ready(_START_SECONDS, self._closing)
        except (OSError, ChildDied, ChildOverran, BrokenMessage, ReadCancelled):
            if child is not None:
                child.kill()
            with self._changed:
                self._failed_starts += 1
                self._changed.notify_all()
            return None
        with self._changed:
            self._failed_starts = 0
            if not self._closing.is_set():
                self._children.add(child)
                self._idle.append(child)
                self._changed.notify_all()
                return child
        child.kill()
        return None

    def _drop_lost_children(self) -> None:
        """Drop children that died while idle, and children whose reader vanished without giving them back."""
        now = time.monotonic()
        with self._changed:
            dead = [child for child in self._idle if child.has_died()]
            late = [child for child in self._children if child.busy_until is not None and child.busy_until < now]
            self._idle = [child for child in self._idle if child not in dead and child not in late]
            self._children.difference_update(dead, late)
        for child in (*dead, *late):
            with contextlib.suppress(OSError):
                child.kill()


class _Either(threading.Event):
    """Combines two events: set when the caller cancelled or the pool is being closed."""

    def __init__(self, cancelled: threading.Event | None, closing: threading.Event) -> None:
        super().__init__()
        self._cancelled, self._closing = cancelled, closing

    def is_set(self) -> bool:
        return self._closing.is_set() or (self._cancelled is not None and self._cancelled.is_set())


def _parse_response(header: dict[str, Any], text: bytes) -> Reading:
    """Return the reading in a response. Raises DocumentRefused, or BrokenMessage if this is not a valid response."""
    try:
        if "refused" in header:
            raise DocumentRefused(Refusal(header["refused"]))
        facts = {str(name): value for name, value in header["facts"].items() if isinstance(value, (int, str))}
        return Reading(text.decode("utf-8"), Kind(header["kind"]), facts)
    except (KeyError, ValueError, AttributeError):
        raise BrokenMessage from None
