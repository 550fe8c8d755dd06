"""Keeps web and worker running in one container, for plans that start one process.

`python -m webapp all` becomes this file. It imports nothing of the app, so it costs a small plan 9 MB instead of 98,
and it can be process 1 of a container: orphans that are handed to it are buried.

SIGTERM or SIGINT, any number of times: each child gets one SIGTERM, and as long as the grace allows; then its whole
group is killed. A child that ends by itself ends the rest in the same way, so that the host starts all of it afresh.
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
"""What is kept of the grace for killing, and for the host to see that all are gone."""


class ProcessGroup:
    """The children, by process id."""

    def __init__(self) -> None:
        self.running: dict[int, str] = {}
        self.stop_asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.stop_asked = True

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a child, in a process group of its own: a signal for us is not one for it."""
        pid = os.posix_spawn(
            command[0], [*command], os.environ, setpgroup=0, setsigdef=[signal.SIGTERM, signal.SIGINT], setsigmask=[]
        )
        self.running[pid] = name

    def bury(self) -> list[str]:
        """Take note of every process that ended, ours or not. The children among them, with how they ended."""
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
        """Wait until told to stop, or until a child ends by itself. Whether all went as it should."""
        ended: list[str] = []
        while not self.stop_asked and not ended:
            time.sleep(LOOK_EVERY_SECONDS)
            ended = self.bury()
        if ended and not self.stop_asked:
            time.sleep(LOOK_EVERY_SECONDS)  # a host that signals every process may reach a child first
        for how in ended:
            say(how)
        return self.stop_asked

    def stop(self, within_seconds: float) -> bool:
        """One SIGTERM for each child, then SIGKILL for the groups. Whether nothing had to be killed."""
        for pid in self.running:
            send(pid, signal.SIGTERM)
        in_time = self.wait(within_seconds)
        for pid, name in self.running.items():
            say(f"{name} did not end in time and is killed")
            send(-pid, signal.SIGKILL)
        self.wait(1)
        return in_time

    def wait(self, seconds: float) -> bool:
        """Give the children this long to end. Whether they have."""
        until = time.monotonic() + seconds
        while self.running and time.monotonic() < until:
            time.sleep(LOOK_EVERY_SECONDS)
            for how in self.bury():
                say(how)
        return not self.running


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process, or with a negative id its group; nothing where it has just gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def say(what: str) -> None:
    """A line for the host's log."""
    print(f"all: {what}", file=sys.stderr, flush=True)


def keep(commands: Mapping[str, Sequence[str]], grace_seconds: float) -> int:
    """Run these until told to stop. 0 after a clean stop; 1 when a child ended by itself or had to be killed."""
    household = ProcessGroup()
    for name, command in commands.items():
        household.start(name, command)
    as_asked = household.watch()
    in_time = household.stop(grace_seconds - min(TO_BE_GONE_SECONDS, grace_seconds / 5))
    return 0 if as_asked and in_time else 1


def main(arguments: Sequence[str]) -> int:
    """Web and worker, with what `python -m webapp all` found to be the grace."""
    commands = {
        "web": [sys.executable, "-m", "gunicorn", "wsgi:app"],
        "worker": [sys.executable, "-m", "tasks", "worker"],
    }
    return keep(commands, float(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
