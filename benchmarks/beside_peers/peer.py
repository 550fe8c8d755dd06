"""The peers: each queue with its best documented settings, around the same durable work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside_peers.environments import python_of
from benchmarks.beside_peers.http_client import Request, Response
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System

FOLDER = Path(__file__).parent / "peers"
WEB = ("-k", "gthread", "--threads", "8", "--keep-alive", "75", "--log-level", "warning")
MOST_CONNECTIONS = 16


@dataclass(frozen=True)
class Kind:
    """A peer: its environment, the arguments of its worker, and the commands that create its tables.

    `processes` is the number of its processes if it runs one job in each, rather than `slots` jobs in one.
    """

    environment: str
    worker: Sequence[str]
    tables: Sequence[Sequence[str]] = ()
    processes: int | None = None


PROCRASTINATE = ("-m", "procrastinate", "--app=with_procrastinate.app")
CELERY = ("-m", "celery", "-A", "with_celery", "worker", "-P", "threads", "-l", "WARNING")
KINDS = {
    "RQ fork": Kind("rq", ("with_rq.py", "fork", "{slots}"), processes=8),
    "RQ simple": Kind("rq", ("with_rq.py", "simple", "{slots}"), processes=8),
    "Celery": Kind("celery", (*CELERY, "-c", "{slots}", "--without-gossip", "--without-mingle")),
    "Dramatiq": Kind("dramatiq", ("-m", "dramatiq", "with_dramatiq", "-p", "1", "-t", "{slots}")),
    "Procrastinate": Kind(
        "procrastinate",
        (*PROCRASTINATE, "worker", "-q", "bench", "-c", "{slots}"),
        [(*PROCRASTINATE, "schema", "--apply")],
    ),
    "pgqueuer": Kind("pgqueuer", ("with_pgqueuer.py", "{slots}"), [("-m", "pgqueuer", "install")]),
    "DBOS": Kind("dbos", ("with_dbos.py", "worker", "{slots}"), [("with_dbos.py", "tables", "{slots}")]),
}


class Peer(System):
    """One peer. `python` runs it in another environment than its own."""

    redis_number = 1
    jobs = "bench_jobs WHERE true"
    folder = FOLDER

    def __init__(self, servers: Servers, name: str, slots: int = 16, python: Callable[[str], Path] = python_of) -> None:
        self._kind = KINDS[name]
        super().__init__(servers, min(slots, self._kind.processes or slots))
        self.name = name
        self.database = f"peer_{self._kind.environment}"
        self._python = python(self._kind.environment)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "BENCH_DATABASE_URL": self.servers.database_url(self.database),
            "PGDSN": self.servers.database_url(self.database),
            "BENCH_REDIS_URL": self.servers.redis_url(self.redis_number),
            "BENCH_AI_URL": self.servers.ai_url,
            "BENCH_CONNECTIONS": str(min(MOST_CONNECTIONS, max(4, self.slots))),
            "BENCH_CALL_SECONDS": "900",
            "BENCH_PEER": f"with_{self._kind.environment}",
            "PYTHONPATH": str(FOLDER),
        }

    def make(self) -> None:
        """Create the tables of the site and of the queue."""
        with self.servers.connect(self.database) as connection:
            connection.execute((FOLDER / "tables.sql").read_text())
        for arguments in self._kind.tables:
            self.call([self._python, *self._filled(arguments)])

    def web_command(self) -> Sequence[str | Path]:
        return [self._python, "-m", "gunicorn", "web:app", "-b", f"127.0.0.1:{self.port}", *WEB]

    def worker_command(self) -> Sequence[str | Path]:
        return [self._python, *self._filled(self._kind.worker)]

    def _filled(self, arguments: Sequence[str]) -> list[str]:
        return [argument.format(slots=self.slots) for argument in arguments]

    def submission(self, mark: str, text: str) -> Request:
        return Request("POST", "/jobs", {"text": text})

    def committed_at(self, responses: Mapping[str, Response]) -> dict[str, float]:
        """Return what the site noted just before each commit."""
        return {mark: float(response.header("X-Committed") or "nan") for mark, response in responses.items()}
