"""Starts a system that takes a job over HTTP and does it in a worker, and waits for its jobs."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.beside_peers.http_client import Client, Request, Response
from benchmarks.beside_peers.processes import Running, kept_variables
from benchmarks.beside_peers.servers import Servers
from webapp.local.ports import free_port


class System(ABC):
    """A system with its own database and its own number in Redis, and `slots` jobs at once."""

    name: str
    database: str
    redis_number: int
    jobs: str
    """The table of jobs, and which of its rows count."""
    folder: Path

    def __init__(self, servers: Servers, slots: int) -> None:
        self.servers, self.slots = servers, slots
        self.port = free_port()

    @property
    @abstractmethod
    def variables(self) -> dict[str, str]:
        """Return the environment of its processes."""

    @abstractmethod
    def make(self) -> None:
        """Create the tables in the new, empty database."""

    @abstractmethod
    def web_command(self) -> Sequence[str | Path]: ...

    @abstractmethod
    def worker_command(self) -> Sequence[str | Path]: ...

    @abstractmethod
    def submission(self, mark: str, text: str) -> Request: ...

    @abstractmethod
    def committed_at(self, responses: Mapping[str, Response]) -> dict[str, float]:
        """Return when the submit of each mark was committed."""

    def prepare(self) -> None:
        """Empty the database and Redis. What `make` creates is kept as a template."""
        self.servers.redis.flushall()
        template = f"{self.database}_empty"
        if not self.servers.has_database(template):
            self.servers.copy_database(self.database)
            self.make()
            self.servers.copy_database(template, self.database)
        self.servers.copy_database(self.database, template)

    def call(self, command: Sequence[str | Path], **more: str) -> str:
        """Run a command to its end, and return its output. Raises RuntimeError."""
        environment = {**kept_variables(), **self.variables, **more}
        ended = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{self.name}: {ended.stdout[-800:]}{ended.stderr[-2000:]}")
        return ended.stdout

    def start_web(self) -> Running:
        """Start the web process, and wait until it responds."""
        web = self.starting_web()
        web.ready_after = web.wait_until(self.responds)
        return web

    def starting_web(self) -> Running:
        """Start the web process without waiting for it."""
        return self._start("web", self.web_command())

    def start_worker(self) -> Running:
        return self._start("worker", self.worker_command())

    def _start(self, role: str, command: Sequence[str | Path]) -> Running:
        log = self.servers.directory / f"{self.name.replace(' ', '-')}-{role}.log"
        return Running(command, {**self.variables, "BENCH_ROLE": role, "PGAPPNAME": role}, self.folder, log)

    def responds(self) -> bool:
        """Return True if the web process responds."""
        with Client(self.port) as client:
            try:
                return client.send(Request("GET", "/healthz")).status == 200
            except OSError:
                return False

    @property
    def _count(self) -> str:
        return f"SELECT count(*) FROM {self.jobs} AND state = 'succeeded'"

    def done(self) -> int:
        """Return how many jobs have succeeded."""
        return int(self.servers.rows(self.database, self._count)[0][0])

    def wait_until_done(self, jobs: int, seconds: float) -> int:
        """Wait until so many jobs have succeeded, and return how often that was asked.

        Raises RuntimeError if they have not in time.
        """
        end, asked = time.time() + seconds, 0
        with self.servers.connect(self.database) as connection:
            while True:
                [(done,)] = connection.execute(self._count).fetchall()
                asked += 1
                if done >= jobs:
                    return asked
                if time.time() > end:
                    raise RuntimeError(f"{self.name}: {done} of {jobs} jobs were done in {seconds:.0f} s")
                time.sleep(0.1)
