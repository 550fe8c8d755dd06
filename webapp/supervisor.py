"""Keeps web and worker running in one container, for plans that start one process.

`python -m webapp all` becomes this file. It imports nothing of the app, so it costs a small plan 9 MB instead of 98,
and it can be process 1 of a container: it reaps orphans that are handed to it.

On SIGTERM or SIGINT, however often, each child gets one SIGTERM, and as long as the grace period allows; then its whole
group is killed. A child that ends by itself ends the rest in the same way, so that the host restarts everything.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType

LOOK_EVERY_SECONDS = 0.1
TO_BE_GONE_SECONDS = 2.0
"""Seconds reserved of the grace period for killing, and for the host to notice that all are gone."""


class ProcessGroup:
    """Starts, watches and stops the child processes, by process id."""

    def __init__(self) -> None:
        self.running: dict[int, str] = {}
        self.stop_asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.stop_asked = True

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a child in its own process group: a signal for us is not one for it."""
        pid = os.posix_spawn(
            command[0], [*command], os.environ, setpgroup=0, setsigdef=[signal.SIGTERM, signal.SIGINT], setsigmask=[]
        )
        self.running[pid] = name

    def reap(self) -> list[str]:
        """Reap every process that ended, including adopted orphans. Returns how the children among them ended."""
        ended: list[str] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            name = self.running.pop(pid, None)
            if name is not None:
                ended.append(f"{name} ended with {os.waitstatus_to_exitcode(status)}")

    def watch(self) -> bool:
        """Wait until a stop is requested, or until a child ends by itself. Returns True if a stop was requested."""
        ended: list[str] = []
        while not self.stop_asked and not ended:
            time.sleep(LOOK_EVERY_SECONDS)
            ended = self.reap()
        if ended and not self.stop_asked:
            time.sleep(LOOK_EVERY_SECONDS)  # a host that signals every process may reach a child first
        for line in ended:
            say(line)
        return self.stop_asked

    def stop(self, within_seconds: float) -> bool:
        """Send one SIGTERM to each child, then SIGKILL to the groups. Returns True if nothing had to be killed."""
        for pid in self.running:
            send(pid, signal.SIGTERM)
        in_time = self.wait(within_seconds)
        for pid, name in self.running.items():
            say(f"{name} did not end in time and is killed")
            send(-pid, signal.SIGKILL)
        self.wait(1)
        return in_time

    def wait(self, seconds: float) -> bool:
        """Give the children this many seconds to end. Returns True if they have."""
        until = time.monotonic() + seconds
        while self.running and time.monotonic() < until:
            time.sleep(LOOK_EVERY_SECONDS)
            for line in self.reap():
                say(line)
        return not self.running


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process, or with a negative id its group. Does nothing if it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def say(what: str) -> None:
    """Write a line to the host's log."""
    print(f"all: {what}", file=sys.stderr, flush=True)


def keep(commands: Mapping[str, Sequence[str]], grace_seconds: float) -> int:
    """Run these until a stop is requested. Returns 0 after a clean stop, 1 if a child ended by itself or was killed."""
    group = ProcessGroup()
    for name, command in commands.items():
        group.start(name, command)
    as_asked = group.watch()
    in_time = group.stop(grace_seconds - min(TO_BE_GONE_SECONDS, grace_seconds / 5))
    return 0 if as_asked and in_time else 1


def main(arguments: Sequence[str]) -> int:
    """Run web and worker, with the grace period that `python -m webapp all` passes."""
    commands = {
        "web": [sys.executable, "-m", "gunicorn", "wsgi:app"],
        "worker": [sys.executable, "-m", "tasks", "worker"],
    }
    return keep(commands, float(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
