"""A process that has imported the app once, and forks a real process of it for each order.

Starting an interpreter that imports everything takes 1.5 s of a core. The tests start hundreds, so that was most of
their cost. A forked process has its own id, session, environment and log, is killed and waited for like any other, and
runs `python -m …` from its first line. Tests of the start itself start their processes in the ordinary way.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[3]
PRELOADED = (
    "tasks.__main__", "tasks.worker.process", "tasks.provider.openai_api", "tasks.provider.openai_background",
    "tasks.intake",
    "tasks.workflows", "tasks.preflight", "openai.resources.responses", "openai.resources.chat", "psycopg",
    "rq.serializers", "rq.scheduler", "webapp", "gunicorn.app.wsgiapp", "gunicorn.workers.base", "webapp.server.server",
    "flask.cli", "flask_migrate.cli", "alembic.command", "alembic.autogenerate",
)  # fmt: skip
ENVIRONMENT_IS_READ_AT_IMPORT = ("tasks.fault_points",)
GREETING = 4096


class Forked:
    """A process that the fork server started; implements the part of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: list[str], variables: dict[str, str], log: int, errors: int | None = None) -> None:
        ours, theirs = socket.socketpair()
        order = json.dumps({"arguments": arguments, "variables": variables}).encode()
        with theirs:
            passed = array.array("i", [theirs.fileno(), log, log if errors is None else errors])
            size = len(order).to_bytes(4, "big")
            _nursery()[0].sendmsg([size], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            ours.sendall(order)
        self._line = ours.makefile("rb", buffering=0)
        self._socket = ours
        self.returncode: int | None = None
        self.pid = int(self._line.readline())

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal; None while it runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended and return as `poll` does. Raises subprocess.TimeoutExpired."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._socket], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._line.readline()))
            self._line.close()
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal. Does nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def completed(
    arguments: list[str], variables: dict[str, str], *, timeout: float = 60, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run to its end, as `subprocess.run` does, capturing stdout and stderr. Raises the same exceptions."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = Forked(arguments, variables, out.fileno(), errors.fileno())
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        ended = subprocess.CompletedProcess(arguments, code, _text_of(out), _text_of(errors))
    if check:
        ended.check_returncode()
    return ended


def _text_of(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


@cache
def _nursery() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Return the connection to this test process's fork server, which ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes.fork_server", str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            pass_fds=[theirs.fileno()],
        )
    return ours, process


def serve(orders: socket.socket) -> list[str] | None:
    """Take orders until the tests are gone.

    Returns in each fork, with its arguments; returns None in the server itself.
    """
    running: dict[int, socket.socket] = {}
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()
    while True:
        ready, _, _ = select.select([orders, wake], [], [])
        if wake in ready:
            os.read(wake, GREETING)
            _say_who_ended(running)
        if orders in ready:
            size, passed, _, _ = socket.recv_fds(orders, 4, 3)
            if not size:
                return None
            line, log, errors = socket.socket(fileno=passed[0]), *passed[1:]
            order = json.loads(_exactly(line, int.from_bytes(size, "big")))
            pid = os.fork()
            if pid == 0:
                for one in (orders, line, *running.values()):
                    one.close()
                os.close(wake)
                _become(order["variables"], log, errors)
                return list(order["arguments"])
            os.close(log)
            os.close(errors)
            line.sendall(f"{pid}\n".encode())
            running[pid] = line


def _exactly(line: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += line.recv(size - len(received))
    return received


def _say_who_ended(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as line, contextlib.suppress(OSError):  # the test may be gone
                line.sendall(f"{status}\n".encode())


def _become(variables: dict[str, str], log: int, errors: int) -> None:
    """Set up session, environment, log and signals as for a newly started process."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(errors, 2)
    os.close(log)
    os.close(errors)
    os.environ.clear()
    os.environ.update(variables)
    for name in ENVIRONMENT_IS_READ_AT_IMPORT:
        importlib.reload(sys.modules[name])


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        assert arguments[0] == "-m", arguments
        sys.argv = arguments[1:]
        sys.modules.pop(f"{arguments[1]}.__main__", None)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
