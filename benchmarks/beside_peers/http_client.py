"""Sends requests over kept-alive connections, with little CPU of its own."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LENGTH = re.compile(rb"content-length: *(\d+)")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Request:
    """A request. A `body` that is not bytes is sent as JSON."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self, host: str) -> bytes:
        """Return the request as it is sent to a host."""
        body = (
            b"" if self.body is None else self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        )
        headers = {"Host": host, **self.headers}
        if self.body is not None:
            headers = {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(frozen=True)
class Response:
    """A response, its head as it came."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        found = re.search(rf"(?im)^{name}: *(.*?)\r?$".encode(), self.head)
        return found[1].decode() if found else None


class Client:
    """A connection that is opened again if the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, request: Request) -> Response:
        """Send a request, and return its response. Raises OSError."""
        message = request.encoded(f"{HOST}:{self._port}")
        try:
            return self._exchange(message)
        except OSError:
            self.close()
            return self._exchange(message)

    def _exchange(self, message: bytes) -> Response:
        if self._socket is None:
            self._socket = socket.create_connection((HOST, self._port), timeout=120)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(message)
        response = received(self._socket)
        if b"connection: close" in response.head.lower():
            self.close()
        return response

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def received(line: socket.socket) -> Response:
    """Read one response: with a length, in chunks, or to the end of the connection."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        buffer += more(line)
    head, _, body = buffer.partition(b"\r\n\r\n")
    status, lower = int(head[9:12]), head.lower()
    if status in (204, 304):
        return Response(status, head, b"")
    found = LENGTH.search(lower)
    if found:
        while len(body) < int(found[1]):
            body += more(line)
    elif b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0\r\n\r\n"):
            body += more(line)
    else:
        while piece := line.recv(65536):
            body += piece
    return Response(status, head, body)


def more(line: socket.socket) -> bytes:
    piece = line.recv(65536)
    if not piece:
        raise ConnectionError("the server closed the connection")
    return piece


@dataclass
class Sent:
    """The outcome of many requests: seconds for all, seconds for each, and how often each status came.

    `cut_off` counts those whose connection the server closed.
    """

    seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    cut_off: int = 0


def send_all(port: int, requests: Iterable[Request], clients: int = 8) -> Sent:
    """Send all requests, with as many at once as there are clients."""
    waiting, lock, sent = iter(requests), threading.Lock(), Sent()

    def work() -> None:
        client = Client(port)
        while True:
            with lock:
                request = next(waiting, None)
            if request is None:
                return client.close()
            began = time.perf_counter()
            response = client.send(request)
            with lock:
                sent.took.append(time.perf_counter() - began)
                sent.statuses[response.status] += 1

    began = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent.seconds = time.perf_counter() - began
    return sent
