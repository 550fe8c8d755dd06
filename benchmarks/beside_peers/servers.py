"""Runs the PostgreSQL, the Redis and the scripted AI service that all systems of a run share."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis
from sqlalchemy.engine import make_url

from benchmarks.beside_peers.environments import ROOT
from benchmarks.beside_peers.http_client import Client, Request
from benchmarks.beside_peers.processes import Running
from webapp.local.ports import free_port
from webapp.local.postgresql import Server as PostgresqlServer
from webapp.local.redis import Server as RedisServer

CONFIGURATION = (
    "track_commit_timestamp=on",  # tells when a row was committed
    "wal_keep_size=2GB",  # keeps the commits until they are counted
    "log_line_prefix=%d|%a|",  # the database and the application of a logged statement
    "log_parameter_max_length=0",
)


class Servers:
    """The servers of a run, at the addresses that a system is given."""

    def __init__(self, postgresql: PostgresqlServer, redis_server: RedisServer, ai_port: int, directory: Path) -> None:
        self._postgresql, self._redis_server = postgresql, redis_server
        self._ai = Client(ai_port)
        self.ai_url = f"http://127.0.0.1:{ai_port}/v1"
        self.directory = directory
        self.redis: redis.Redis = redis.Redis.from_url(redis_server.address)

    @property
    def postgresql_pid(self) -> int:
        return int((self._postgresql.data / "postmaster.pid").read_text().split()[0])

    @property
    def redis_pid(self) -> int:
        assert self._redis_server.process is not None
        return self._redis_server.process.pid

    @property
    def wal(self) -> Path:
        """Return the directory of the write-ahead log."""
        return self._postgresql.data / "pg_wal"

    @property
    def programs(self) -> Path:
        """Return the directory of PostgreSQL's programs."""
        return Path(psutil.Process(self.postgresql_pid).exe()).parent

    @property
    def log(self) -> Path:
        return self._postgresql.log

    def database_url(self, database: str) -> str:
        return make_url(self._postgresql.address).set(database=database).render_as_string(hide_password=False)

    def redis_url(self, number: int) -> str:
        return self._redis_server.address.removesuffix("0") + str(number)

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Return a connection of the benchmark's own."""
        return psycopg.connect(self.database_url(database), autocommit=True, application_name="benchmark")

    def rows(self, database: str, statement: str) -> list[Any]:
        with self.connect(database) as connection:
            return connection.execute(statement).fetchall()

    def has_database(self, name: str) -> bool:
        with self.connect() as connection:
            return bool(connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone())

    def copy_database(self, name: str, template: str = "template1") -> None:
        """Create a database as a copy, in place of one with this name."""
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    def close(self) -> None:
        """Close the benchmark's own connections."""
        self._ai.close()
        self.redis.close()

    @contextmanager
    def logged_statements(self) -> Iterator[None]:
        """Log every statement while the block runs."""
        self._set_log("all")
        try:
            yield
        finally:
            self._set_log("none")

    def _set_log(self, value: str) -> None:
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET log_statement = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.3)  # until each process of PostgreSQL has got the signal

    def ai(self, path: str, **content: Any) -> Any:
        """Order something from the scripted AI service, and return what it says."""
        return json.loads(self._ai.send(Request("POST", path, content)).body)


@contextmanager
def running(directory: Path, *, throwaway: bool = False) -> Iterator[Servers]:
    """Run the servers while the block runs. `throwaway` gives up PostgreSQL's durability; figures need it."""
    postgresql = PostgresqlServer(directory / "postgresql", throwaway=throwaway, configuration=CONFIGURATION)
    redis_server = RedisServer(directory / "redis")
    ai_port = free_port()
    command = [sys.executable, "-m", "benchmarks.beside_peers.ai_service", str(ai_port)]
    try:
        postgresql.start()
        redis_server.start()
        with Running(command, {}, ROOT, directory / "ai.log") as ai:
            servers = Servers(postgresql, redis_server, ai_port, directory)
            ai.wait_until(lambda: responds(servers))
            yield servers
            servers.close()
    finally:
        redis_server.stop()
        postgresql.stop()
        shutil.rmtree(postgresql.data, ignore_errors=True)
        postgresql.remove()


def responds(servers: Servers) -> bool:
    try:
        return bool(servers.ai("/_stats"))
    except OSError:
        return False
