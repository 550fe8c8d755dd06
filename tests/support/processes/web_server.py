"""Runs the site's web server with a small app, and talks to it over a socket."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support import factories
from tests.support.processes.processes import Process, answers, process
from webapp.local.ports import free_port

PATIENCE_SECONDS = 10.0
QUICK = {"head_seconds": 1, "window_seconds": 1, "sweep_seconds": 0.1, "linger_seconds": 1}
"""The limits of a test: those of the site, divided by ten."""


@contextmanager
def serving(*, limits: dict[str, float] = QUICK, also: str = "", **variables: str) -> Iterator[tuple[int, Process]]:
    """Serve the small app at a port, and `also` at another address, by the site's server."""
    port = free_port()
    environment = {**{key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}, **variables}
    environment = {"HOST": "127.0.0.1", "PORT": str(port), "WEB_THREADS": "4", **environment}
    environment |= {"LIMITS": json.dumps(limits), "PYTHONWARNINGS": "ignore"}
    command = [
        "-m",
        "gunicorn",
        "-c",
        "tests/support/processes/impatient_gunicorn.py",
        "tests.support.processes.plain_app:app",
    ]
    if also:
        command += ["--bind", f"{environment['HOST']}:{port}", "--bind", also]
    with process(command, environment) as web:
        factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), within=30, what=lambda: web.log)
        yield port, web


class Line:
    """One connection, used byte by byte."""

    def __init__(self, port: int, **options: Any) -> None:
        self._read = b""
        self._socket = socket.socket()
        self._socket.settimeout(PATIENCE_SECONDS)
        for name, value in options.items():
            self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        self._socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, path: str, method: str = "GET", *, more: str = "", body: bytes = b"") -> bytes:
        """Send a request, and return the response: it must have a length, or no body."""
        self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode() + body)
        return self.answer(with_body=method != "HEAD")

    def answer(self, *, with_body: bool = True) -> bytes:
        """Read one response; as far as there is one if the connection ends before."""
        self._read_until(lambda: b"\r\n\r\n" in self._read)
        head = self._read.partition(b"\r\n\r\n")[0]
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = len(head) + 4
        if b"transfer-encoding" in fields and with_body:
            self._read_until(lambda: b"\r\n0\r\n\r\n" in self._read)
            length = self._read.find(b"\r\n0\r\n\r\n") + 7
        elif with_body:
            length += int(fields.get(b"content-length", b"0"))
            self._read_until(lambda: len(self._read) >= length)
        data, self._read = self._read[:length], self._read[length:]
        return data

    def to_the_end(self) -> bytes:
        """Read until the connection ends, for whatever reason."""
        self._read_until(lambda: False)
        return self._read

    def _read_until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            try:
                piece = self._socket.recv(65536)
            except ConnectionError:
                return
            if not piece:
                return
            self._read += piece
