"""Counts what PostgreSQL and Redis do between two moments, on behalf of one system."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.beside_peers.processes import cpu_seconds
from benchmarks.beside_peers.servers import Servers

LOGGED = re.compile(
    r"^(?P<database>[^|\n]*)\|(?P<application>[^|\n]*)\|LOG:  (?:statement|execute [^:]*): (?P<text>.*)"
)
FRAME = re.compile(r"(?i)(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b")
OWN = "benchmark"
WRITTEN_WITHIN_SECONDS = 1.0
"""A commit is on the disk at once; a server that gives up durability needs a moment longer."""
NOT_COUNTED = {"info", "flushall"}


@dataclass
class Work:
    """CPU seconds and counts between two moments.

    `statements` leaves out BEGIN and COMMIT, `round_trips` has them. Both are zero unless statements were logged.
    `commits` are the commit records in the write-ahead log: transactions that have written and waited for the disk.
    """

    seconds: float = 0.0
    postgresql_cpu: float = 0.0
    redis_cpu: float = 0.0
    statements: int = 0
    round_trips: int = 0
    commits: int = 0
    redis_commands: int = 0
    by_text: Counter[str] = field(default_factory=Counter)
    by_application: Counter[str] = field(default_factory=Counter)
    by_command: Counter[str] = field(default_factory=Counter)

    @property
    def statements_of_web(self) -> int:
        """Return the statements of the web process. Each process tells PostgreSQL its name."""
        return sum(count for application, count in self.by_application.items() if "web" in application)


class Counters:
    """Begins to count when it is created."""

    def __init__(self, servers: Servers, database: str) -> None:
        self._servers, self._database = servers, database
        self._position = self._insert_position()
        self._log_position = servers.log.stat().st_size
        self._commands = self._redis_commands()
        self._cpu = self._both_cpu()
        self._began = time.time()

    def read(self) -> Work:
        """Return what was done since the beginning."""
        work = Work(seconds=time.time() - self._began)
        postgresql_cpu, redis_cpu = self._both_cpu()
        work.postgresql_cpu, work.redis_cpu = postgresql_cpu - self._cpu[0], redis_cpu - self._cpu[1]
        work.by_command = self._redis_commands() - self._commands
        work.redis_commands = work.by_command.total()
        work.commits = self._commits()
        self._add_statements(work)
        return work

    def _both_cpu(self) -> tuple[float, float]:
        return cpu_seconds(self._servers.postgresql_pid), cpu_seconds(self._servers.redis_pid)

    def _insert_position(self) -> str:
        return str(self._servers.rows("postgres", "SELECT pg_current_wal_insert_lsn()")[0][0])

    def _redis_commands(self) -> Counter[str]:
        found = self._servers.redis.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): int(figures["calls"]) for name, figures in found.items()}
        return Counter({name: count for name, count in calls.items() if name not in NOT_COUNTED})

    def _commits(self) -> int:
        end, until = self._insert_position(), time.time() + WRITTEN_WITHIN_SECONDS
        is_written = f"SELECT pg_current_wal_flush_lsn() >= '{end}'"
        while not self._servers.rows("postgres", is_written)[0][0] and time.time() < until:
            time.sleep(0.02)
        span = [f"--path={self._servers.wal}", f"--start={self._position}", f"--end={end}", "--rmgr=Transaction"]
        ended = subprocess.run([self._servers.programs / "pg_waldump", *span], capture_output=True, text=True)
        return sum("desc: COMMIT" in line for line in ended.stdout.splitlines())

    def _add_statements(self, work: Work) -> None:
        with self._servers.log.open("rb") as log:
            log.seek(self._log_position)
            lines = log.read().decode(errors="replace").splitlines()
        for line in lines:
            found = LOGGED.match(line)
            if found and found["database"] == self._database and found["application"] != OWN:
                work.round_trips += 1
                if not FRAME.match(found["text"]):
                    work.statements += 1
                    work.by_text[found["text"][:200]] += 1
                    work.by_application[found["application"]] += 1


def transactions(servers: Servers, database: str) -> int:
    """Return how many transactions a database has ended, reads and pre-pings included.

    PostgreSQL adds those of a connection when the connection ends.
    """
    statement = f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{database}'"
    return int(servers.rows("postgres", statement)[0][0])
