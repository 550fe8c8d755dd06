"""One reading child, seen from the worker: started, asked, watched, killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tasks.intake.errors import ReadAbandoned
from tasks.intake.sandbox.protocol import pack, unpack

# Waiting is done in steps: another thread can stop this one only between two of them.
_STEP_SECONDS = 0.25
_FAREWELL_SECONDS = 0.25
_CHUNK = 256 * 1024
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ChildDied(Exception):
    """The child ended before it had answered. `code` is its exit code, see `wire.Ending`; negative after a signal."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class ChildOverran(Exception):
    """The child was still at work when its wall-clock time was over; it is to be killed."""


class Child:
    """A running child and its fork. Must be started by a thread that lives on: Linux ends it together with that one."""

    def __init__(self) -> None:
        self.busy_until: float | None = None
        self._code: int | None = None
        self._reaping = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-B", "-m", "tasks.intake.sandbox.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout
        self._to_child, self._from_child = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to_child, False)
        os.set_blocking(self._from_child, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, seconds: float, cancelled: threading.Event) -> None:
        """Raises as `ask` does."""
        self._exchange(b"", 0, time.monotonic() + seconds, cancelled)

    def ask(
        self, header: dict[str, Any], body: bytes, max_answer: int, seconds: float, cancelled: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        """Send one request and return its answer.

        Raises ChildDied, ChildOverran, ReadAbandoned (when `cancelled` is set) or BrokenMessage; after any of them the
        child is of no further use.
        """
        return self._exchange(pack(header, body), max_answer, time.monotonic() + seconds, cancelled)

    def _exchange(
        self, message: bytes, max_answer: int, deadline: float, cancelled: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        unsent, received = memoryview(message), bytearray()
        while True:
            if cancelled is not None and cancelled.is_set():
                raise ReadAbandoned
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChildOverran
            readable, writable = self._wait(bool(unsent), min(left, _STEP_SECONDS))
            if writable:
                unsent = unsent[self._write(unsent) :]
            if readable:
                piece = os.read(self._from_child, _CHUNK)
                if not piece:
                    raise ChildDied(self._code_of_death())
                received += piece
                if answer := unpack(received, max_answer):
                    return answer

    def _wait(self, sending: bool, seconds: float) -> tuple[bool, bool]:
        # poll, because select cannot watch the high descriptors that a worker with many connections has.
        poll = select.poll()
        poll.register(self._from_child, select.POLLIN)
        if sending:
            poll.register(self._to_child, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
        return self._from_child in ready, sending and self._to_child in ready

    def _write(self, unsent: memoryview) -> int:
        try:
            return os.write(self._to_child, unsent[:_CHUNK])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise ChildDied(self._code_of_death()) from None

    def has_died(self) -> bool:
        return self._reap(os.WNOHANG) is not None

    def kill(self) -> None:
        """End the child at once and let go of everything it used. Harmless when it has ended already."""
        # It is asked first, so that it can collect the process it forked; a child that hangs is not waited for.
        self._signal(os.kill, signal.SIGUSR1)
        if self._await_death(_FAREWELL_SECONDS) is None:
            self._signal(os.killpg, signal.SIGKILL)
            self._reap(0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._code is None:  # until it is reaped, its number cannot have become another's
                send(self._process.pid, number)

    def _code_of_death(self) -> int:
        """Its pipe is closed, so it is ending; if it does not, it is made to."""
        code = self._await_death(1.0)
        if code is None:
            self._signal(os.killpg, signal.SIGKILL)
            code = self._reap(0)
        return code or 0

    def _await_death(self, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while (code := self._reap(os.WNOHANG)) is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return code

    def _reap(self, options: int) -> int | None:
        """The child's exit code; None while it lives."""
        with self._reaping:
            if self._code is None:
                try:
                    pid, status = os.waitpid(self._process.pid, options)
                except ChildProcessError:  # somebody else in this process waited for it
                    pid, status = self._process.pid, 0
                if pid:
                    self._code = self._process.returncode = os.waitstatus_to_exitcode(status)
            return self._code


def _environment() -> dict[str, str]:
    """Where to find the same modules as this process, and nothing else: no keys, no addresses."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    places = [os.path.abspath(entry) for entry in sys.path]
    return kept | {"PYTHONPATH": os.pathsep.join(places), "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
