"""A PostgreSQL, a Redis and workers that belong to the run, so that it may do anything to them."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.support.processes.processes import Process
from webapp.local import postgresql
from webapp.local import redis as redis_server


class Postgres:
    """A server that can be stopped hard and started again at the same address. `outages` are their durations so far."""

    def __init__(self, server: postgresql.Server) -> None:
        self.address = server.address
        self.outages: list[float] = []
        self._server = server
        self._stopped_at = 0.0
        self.is_read_only = False

    def stop(self, number: signal.Signals) -> None:
        """Stop the server. SIGINT ends connections in order, SIGQUIT is a crash from which the next start recovers."""
        self._stopped_at = time.monotonic()
        self._server.stop(number)

    def start(self) -> None:
        """Start with the same options, and wait until it responds."""
        self._server.start()
        self.outages.append(time.monotonic() - self._stopped_at)

    def _engine(self) -> Engine:
        return create_engine(self.address.replace("postgresql://", "postgresql+psycopg://", 1), poolclass=NullPool)

    def lock(self, statement: str) -> Callable[[], None]:
        """Run a statement that locks, and return a function that releases what it has locked."""
        connection = self._engine().connect()
        connection.execute(text("SET lock_timeout = '1s'"))
        with contextlib.suppress(DBAPIError):  # somebody else has locked it for too long
            connection.execute(text(statement))

        def release() -> None:
            with contextlib.suppress(DBAPIError):  # the server may have ended the connection
                connection.rollback()
            with contextlib.suppress(DBAPIError):
                connection.close()

        return release

    def set_read_only(self, wanted: bool) -> None:
        """Let new transactions only read, or write again, and end all connections that do not know it yet."""
        change = "SET default_transaction_read_only = on" if wanted else "RESET default_transaction_read_only"
        with self._engine().connect() as connection:
            connection.execute(text("SET TRANSACTION READ WRITE"))
            name = connection.execute(text("SELECT current_database()")).scalar_one()
            connection.execute(text(f'ALTER DATABASE "{name}" {change}'))
            connection.commit()
        self.is_read_only = wanted
        self.terminate_connections()

    def terminate_connections(self) -> None:
        """Terminate every connection except the current one."""
        engine = self._engine()
        with engine.connect() as connection:
            connection.execute(
                text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> :me"),
                {"me": connection.connection.dbapi_connection.info.backend_pid},  # type: ignore[union-attr]
            )
        engine.dispose()


class Redis(redis_server.Server):
    """A server without persistence that can be killed and started again on the same port."""

    def flush(self) -> None:
        with redis.Redis.from_url(self.address) as connection:
            connection.flushall()

    def limit_memory(self, most: str) -> None:
        """Let it take no more memory than this; `0`: as much as it wants. Does nothing while it is away."""
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(self.address) as connection:
            connection.config_set("maxmemory", most)


class Workers:
    """A number of workers, each started again when it ends, as a host does.

    `killed_at` has the wall-clock time at which a process was killed or frozen, by its process id.
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
        """Start a replacement for each worker that has ended."""
        for index, worker in enumerate(self.running):
            code = worker.popen.poll()
            if code is not None:
                self.exits[code] += 1
                self._bury(worker)
                self.running[index] = self._start()

    def _bury(self, worker: Process) -> None:
        self._logs.append(worker.log)
        worker.end()

    def end(self) -> None:
        """Send SIGTERM to all, then SIGKILL to those that do not end."""
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
        """Return the lines of all logs that contain these words."""
        return [line for log in self._logs for line in log.splitlines() if words in line]

    def tracebacks(self) -> Counter[str]:
        """Return the tracebacks of processes that did not end cleanly."""
        found: Counter[str] = Counter()
        for log in self._logs:
            if log.rstrip().endswith("}"):
                continue  # the last word is a log line, so any earlier exception was caught
            lines = re.findall(r'File ".*/((?:tasks|webapp)/\S+)", line (\d+)', log)
            errors = re.findall(r"^[\w.]+(?:Error|Exception|Timeout)\b", log, re.MULTILINE)
            if lines and errors:
                found[f"{errors[-1]} at {':'.join(lines[-1])}"] += 1
        return found


@contextmanager
def services(directory: Path) -> Iterator[tuple[Postgres, Redis]]:
    """Run both servers; they are gone after the block, in whatever state it left them."""
    server, store = postgresql.Server(directory / "postgresql"), Redis(directory / "redis")
    try:
        server.start()
        store.start()
        yield Postgres(server), store
    finally:
        store.kill()  # even a frozen one
        server.stop()
        server.remove()
