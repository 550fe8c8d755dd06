"""A PostgreSQL, a Redis and workers that belong to the run, so that it may do to them whatever it likes."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from sqlalchemy import create_engine, text

from tests.support.processes.processes import Process
from webapp.local import postgresql
from webapp.local import redis as redis_server


class Postgres:
    """A server that can be stopped hard and started again at the same address. `outages` are their lengths so far."""

    def __init__(self, server: postgresql.Server) -> None:
        self.address = server.address
        self.outages: list[float] = []
        self._server = server
        self._stopped_at = 0.0

    def stop(self, number: signal.Signals) -> None:
        """SIGINT ends connections in order, SIGQUIT is a crash: the next start recovers from the log."""
        self._stopped_at = time.monotonic()
        self._server.stop(number)

    def start(self) -> None:
        """Start with the options it had, and wait until it answers."""
        self._server.start()
        self.outages.append(time.monotonic() - self._stopped_at)

    def terminate_connections(self) -> None:
        """Cut every connection but the one that does it."""
        engine = create_engine(self.address.replace("postgresql://", "postgresql+psycopg://", 1))
        with engine.connect() as connection:
            connection.execute(
                text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> :me"),
                {"me": connection.connection.dbapi_connection.info.backend_pid},  # type: ignore[union-attr]
            )
        engine.dispose()


class Redis(redis_server.Server):
    """A server that keeps nothing and can be killed and started again on the same port."""

    def flush(self) -> None:
        with redis.Redis.from_url(self.address) as connection:
            connection.flushall()


class Workers:
    """So many workers, each started again when it ends, as a host does.

    `killed_at` has the moment, by the wall clock, at which a process was killed or frozen, by its process id.
    """

    def __init__(self, count: int, variables: dict[str, str], slots: int) -> None:
        self._variables = variables
        self._command = ["-m", "tasks", "worker", "--slots", str(slots)]
        self._logs: list[str] = []
        self.killed_at: dict[int, float] = {}
        self.exits: Counter[int] = Counter()
        self.running = [self._start() for _ in range(count)]

    def _start(self) -> Process:
        return Process(self._command, self._variables)

    def replace_ended(self) -> None:
        """Start another for each that has ended."""
        for place, worker in enumerate(self.running):
            code = worker.popen.poll()
            if code is not None:
                self.exits[code] += 1
                self._bury(worker)
                self.running[place] = self._start()

    def _bury(self, worker: Process) -> None:
        self._logs.append(worker.log)
        worker.end()

    def end(self) -> None:
        """SIGTERM to all, then SIGKILL to those that do not go."""
        for worker in self.running:
            worker.signal(signal.SIGCONT)
            worker.signal(signal.SIGTERM)
        for worker in self.running:
            try:
                self.exits[worker.wait(within=15)] += 1
            except subprocess.TimeoutExpired:
                self.exits[-signal.SIGKILL] += 1
            self._bury(worker)
        self.running = []

    def said(self, words: str) -> list[str]:
        """The lines of all logs that contain this."""
        return [line for log in self._logs for line in log.splitlines() if words in line]

    def tracebacks(self) -> Counter[str]:
        """Where and with what processes ended that did not end in order."""
        found: Counter[str] = Counter()
        for log in self._logs:
            if log.rstrip().endswith("}"):
                continue  # the last word is a line of the log, so whatever was raised before was caught
            places = re.findall(r'File ".*/((?:tasks|webapp)/\S+)", line (\d+)', log)
            errors = re.findall(r"^[\w.]+(?:Error|Exception|Timeout)\b", log, re.MULTILINE)
            if places and errors:
                found[f"{errors[-1]} at {':'.join(places[-1])}"] += 1
        return found


@contextmanager
def services(directory: Path) -> Iterator[tuple[Postgres, Redis]]:
    """Both servers, running; gone after the block, in whatever state it left them."""
    server, store = postgresql.Server(directory / "postgresql"), Redis(directory / "redis")
    try:
        server.start()
        store.start()
        yield Postgres(server), store
    finally:
        store.kill()  # a frozen one too
        server.stop()
        server.remove()
