"""Real processes of the app, started by a test, killed by their id, with their log kept for the failure message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.fake_provider import FakeProvider
from tests.support.factories import ROOT, environment, wait_until
from tests.support.processes.fork_server import Forked


class Process:
    """A child process and its log. `fresh` starts a new interpreter instead of a fork."""

    def __init__(self, arguments: list[str], variables: Mapping[str, str], *, fresh: bool = False) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by end())
        self.popen: Forked | subprocess.Popen[bytes]
        if fresh:
            self.popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=dict(variables),
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        else:
            self.popen = Forked(arguments, dict(variables), self._log.fileno())

    @property
    def log(self) -> str:
        """Return everything it has logged so far."""
        size = os.fstat(self._log.fileno()).st_size
        # a seek would move the shared write position
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def wait_for_log(self, words: str, *, within: float = 20) -> None:
        """Wait until its log contains these words. Fails if it ended before."""

        def logged() -> bool:
            return words in self.log or self.popen.poll() is not None

        wait_until(logged, within=within, what=f"{words!r} in:\n{self.log}")
        assert words in self.log, self.log

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self.popen.send_signal(number)

    def wait(self, *, within: float = 30) -> int:
        """Wait for its end, and return the exit code; negative the signal's number if it was killed."""
        return self.popen.wait(within)

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self._log.close()


@contextmanager
def process(arguments: list[str], variables: Mapping[str, str], *, fresh: bool = False) -> Iterator[Process]:
    """Run the process while the block runs; gone after it, whatever happened."""
    child = Process(arguments, variables, fresh=fresh)
    try:
        yield child
    finally:
        child.end()


def asking(fake: FakeProvider, **more: Any) -> dict[str, str]:
    """Return the environment of a site whose provider is this fake."""
    ours = {"AI_PROVIDER": "openai", "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": fake.base_url}
    return {**ours, **{key: str(value) for key, value in more.items()}}


@contextmanager
def worker(addresses: Mapping[str, str], *, slots: int = 4, ready: bool = True, **changed: Any) -> Iterator[Process]:
    """Run a worker with these services. `changed` is added to its environment."""
    variables = environment(dict(addresses), **{key: str(value) for key, value in changed.items()})
    with process(["-m", "tasks", "worker", "--slots", str(slots)], variables) as child:
        if ready:
            child.wait_for_log("worker.started")
        yield child


def answers(address: str) -> bool:
    """Return True if a page can be loaded there, with a status below 400."""
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
