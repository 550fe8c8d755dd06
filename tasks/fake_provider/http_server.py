"""Serves the requests to the scripted provider, down to the bytes and the socket."""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tasks.fake_provider import background
from tasks.fake_provider.replies import Reply, reply_for

if TYPE_CHECKING:
    from tasks.fake_provider import FakeProvider

Step = dict[str, Any]


@dataclass
class Seen:
    """Represents a model request. `client_gone` becomes True if the client disconnects before the response is whole."""

    number: int
    at: float
    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)
    mode: str
    client_gone: bool = False
    done: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def client_request_id(self) -> str | None:
        return self.headers.get("x-client-request-id")


class Gate:
    """Lets a thread wait for it together with a socket: closed at first, and once opened, open for ever."""

    def __init__(self) -> None:
        self.inside, self._outside = socket.socketpair()

    def open(self) -> None:
        self._outside.close()

    @property
    def is_open(self) -> bool:
        return self._outside.fileno() == -1

    def close(self) -> None:
        self._outside.close()
        self.inside.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # hundreds of calls connect at the same time
    fake: FakeProvider

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.fake.changed:
            self.fake.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self.fake.changed:
            self.fake.connections.discard(request)
            self.fake.changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, which is normal here; leave other errors to the default."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Gone(Exception):
    """Raised when the client has disconnected or the fake is being stopped, so that no response can be sent."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each call over a kept-alive connection takes 40 ms more
    wbufsize = 0
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.server.fake
        if self.path.startswith(background.PATH):
            return self._about("GET")
        with fake.changed:
            log = [
                {**vars(seen), "body": seen.body.decode("utf-8", "replace"), "bytes": len(seen.body)}
                for seen in fake.requests
            ]
        return self._control(log if self.path == "/_log" else None)

    def do_DELETE(self) -> None:
        self._about("DELETE")

    def _about(self, method: str) -> None:
        """Answer a request about a response in the background."""
        seen = Seen(0, 0.0, self.path, {}, b"", method)
        try:
            reply, step = background.handle(self.server.fake, method, self.path)
            if step is not None:
                self._act(seen, step)
            elif reply is not None:
                self._send(reply, "req-fake-about")
        except (_Gone, OSError):
            self.close_connection = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(background.PATH):
            return self._about("POST")
        if self.path.startswith("/_"):
            return self._steer(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen, step = self.server.fake.take(self.path, headers, body)
        try:
            self._act(seen, step)
            self.server.fake.note(seen, done=True)
        except (_Gone, OSError):
            self.close_connection = True
            self.server.fake.note(seen, gone=True, done=True)

    def _steer(self, body: bytes) -> None:
        fake = self.server.fake
        command = json.loads(body or b"{}")
        if self.path == "/_script" and isinstance(command, dict):
            fake.script(command["steps"], marker=command.get("marker", ""))
        elif self.path == "/_script":
            fake.script(command)
        elif self.path == "/_release":
            fake.release(command.get("gate", "default"))
        elif self.path == "/_reset":
            fake.reset()
        else:
            return self._control(None)
        return self._control({"ok": True})

    def _control(self, answer: Any) -> None:
        self._send(Reply(404 if answer is None else 200, json.dumps(answer).encode()), "control")

    def _act(self, seen: Seen, step: Step) -> None:
        accepted = background.begin(self.server.fake, seen, step)
        if accepted is not None:
            return self._send(accepted, f"req-fake-{seen.number}")
        mode = step["mode"]
        self._pause(step.get("delay", step.get("seconds", 0)))
        if mode == "gate":
            self._pause(None, self.server.fake.gate(step.get("name", "default")))
        elif mode == "hang":
            self._pause(None)
        elif mode == "flood":
            return self._flood()
        elif mode in _BROKEN:
            return self._break_off(mode)
        reply = reply_for(step, self.path, seen.body, self.headers.get("Authorization", ""))
        if reply is None:
            reply = Reply(501, json.dumps({"error": {"message": f"unknown mode {mode}"}}).encode())
        if mode.startswith("drip"):
            return self._drip(reply, step, in_headers=mode == "drip_headers")
        return self._send(reply, f"req-fake-{seen.number}")

    def _send(self, reply: Reply, request_id: str) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("x-request-id", request_id)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def _drip(self, reply: Reply, step: Step, *, in_headers: bool) -> None:
        start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.wfile.write(start + (b"X-Drip: " if in_headers else b"\r\n"))
        sent = 0
        while sent != step.get("count"):
            self._pause(step.get("every", 0.1))
            self.wfile.write(b"." if in_headers else b" ")
            sent += 1
        self.wfile.write((b"\r\n\r\n" if in_headers else b"") + reply.body)
        self.close_connection = True

    def _flood(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        while True:
            self.wfile.write(b" " * 65536)

    def _break_off(self, mode: str) -> None:
        self.close_connection = True
        if mode == "rst":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()  # the socket is closed, and so reset, with the last file that was made from it
            self.connection.close()
            return
        self.wfile.write(_BROKEN[mode])
        shut(self.connection)

    def _pause(self, seconds: float | None, gate: Gate | None = None) -> None:
        """Wait for a time (None: for ever) or until the gate opens. Raises _Gone if the client disconnects first."""
        if seconds == 0:
            return
        stopped = self.server.fake.stopped
        poll = select.poll()
        for watched in (self.connection, stopped.inside, *([gate.inside] if gate else [])):
            poll.register(watched, select.POLLIN)
        ready = {number for number, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if stopped.inside.fileno() in ready or self.connection.fileno() in ready:
            raise _Gone


_BROKEN = {
    "drop": b"",
    "rst": b"",
    "garbage": b"SSH-2.0-OpenSSH_9.6\r\n",
    "cut_headers": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "cut_body": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"id": ',
}


def shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the other end was closed first
        connection.shutdown(socket.SHUT_RDWR)
