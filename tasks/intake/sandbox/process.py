"""The worker's side of one child process: starts it, sends requests, watches it, kills it."""

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

from tasks.intake.errors import ReadCancelled
from tasks.intake.sandbox.protocol import pack, unpack

# Waiting is done in steps, because another thread can stop this one only between two steps.
_STEP_SECONDS = 0.25
_EXIT_SECONDS = 0.25
_CHUNK = 256 * 1024
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ChildDied(Exception):
    """Raised when the child ended without a response. `code`: see `protocol.Ending`; negative after a signal."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class ChildOverran(Exception):
    """Raised when the child was still busy at the end of its wall-clock time. The caller must kill it."""


class Child:
    """Represents a running child and its fork. Start it from a thread that lives on: Linux ends the child with it."""

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
        """Wait until the child has loaded its parsers. Raises as `ask` does."""
        self._exchange(b"", 0, time.monotonic() + seconds, cancelled)

    def ask(
        self, header: dict[str, Any], body: bytes, max_body: int, seconds: float, cancelled: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        """Send one request and return the response, whose body may have `max_body` bytes.

        Raises ChildDied, ChildOverran, ReadCancelled (when `cancelled` is set) or BrokenMessage; after any of them the
        child must not be used any more.
        """
        return self._exchange(pack(header, body), max_body, time.monotonic() + seconds, cancelled)

    def _exchange(
        self, message: bytes, max_body: int, deadline: float, cancelled: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        unsent, received = memoryview(message), bytearray()
        while True:
            if cancelled is not None and cancelled.is_set():
                raise ReadCancelled
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChildOverran
            readable, writable = self._wait(bool(unsent), min(left, _STEP_SECONDS))
            if writable:
                unsent = unsent[self._write(unsent) :]
            if readable:
                piece = os.read(self._from_child, _CHUNK)
                if not piece:
                    raise ChildDied(self._exit_code())
                received += piece
                if response := unpack(received, max_body):
                    return response

    def _wait(self, sending: bool, seconds: float) -> tuple[bool, bool]:
        # poll and not select, which cannot watch the high descriptors that a worker with many connections has.
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
            raise ChildDied(self._exit_code()) from None

    def has_died(self) -> bool:
        return self._reap(os.WNOHANG) is not None

    def kill(self) -> None:
        """End the child at once and release everything it used. Does nothing if it has ended already."""
        # First a signal that lets it reap its own fork; a child that hangs gets no more time than this.
        self._signal(os.kill, signal.SIGUSR1)
        if self._await_exit(_EXIT_SECONDS) is None:
            self._signal(os.killpg, signal.SIGKILL)
            self._reap(0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _signal(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._code is None:  # until it is reaped, no other process can have its id
                send(self._process.pid, number)

    def _exit_code(self) -> int:
        """Return the exit code of a child that closed its pipe and so should be ending. Kills it if it does not end."""
        code = self._await_exit(1.0)
        if code is None:
            self._signal(os.killpg, signal.SIGKILL)
            code = self._reap(0)
        return code or 0

    def _await_exit(self, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while (code := self._reap(os.WNOHANG)) is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return code

    def _reap(self, options: int) -> int | None:
        """Return the child's exit code; None while it is running."""
        with self._reaping:
            if self._code is None:
                try:
                    pid, status = os.waitpid(self._process.pid, options)
                except ChildProcessError:  # other code in this process has waited for it
                    pid, status = self._process.pid, 0
                if pid:
                    self._code = self._process.returncode = os.waitstatus_to_exitcode(status)
            return self._code


def _environment() -> dict[str, str]:
    """Return the environment that lets the child find the same modules, and nothing else: no keys, no addresses."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    folders = [os.path.abspath(entry) for entry in sys.path]
    return kept | {"PYTHONPATH": os.pathsep.join(folders), "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
