"""Runs preflight for tests, and puts a relay in front of Redis that changes its replies."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.preflight import report
from tasks.settings import Settings


def said(settings: Settings, level: str, **more: Any) -> list[str]:
    """Return the checks that had this level."""
    lines, well = report(settings, **more)
    assert well is not any(line.startswith("FAIL") for line in lines)
    return [line[6:].split(":")[0] for line in lines if line.startswith(level)]


def line_of(settings: Settings, question: str, **more: Any) -> str:
    """Return the message of one check."""
    (line,) = [line for line in report(settings, **more)[0] if line[6:].startswith(f"{question}:")]
    return line


class _Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with socket.create_connection(server.target) as there:
            up = threading.Thread(target=self._pass_on, args=(self.request, there, None), daemon=True)
            up.start()
            self._pass_on(there, self.request, server.change)
            up.join(5)

    def _pass_on(self, source: socket.socket, sink: socket.socket, change: tuple[bytes, bytes] | None) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(re.sub(*change, data) if change else data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def relay(address: str, pattern: bytes, replacement: bytes) -> Iterator[str]:
    """Run a TCP server in front of this Redis that replaces bytes of its replies. Yields its address."""
    login, host, port = re.findall(r"//([^@]*@)?([^:/]+):(\d+)", address)[0]
    with _Server(("127.0.0.1", 0), _Relay) as server:
        server.target = (host, int(port))  # type: ignore[attr-defined]
        server.change = (pattern, replacement)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"redis://{login}127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()
        thread.join()
