"""python -m benchmarks.beside_peers.ai_service PORT

Runs a scripted AI service that costs little: one asyncio process, about 0.1 ms of CPU for a request. Nothing is
validated or streamed. A marker BENCH-<word> in the body is logged with the time when the request arrived.

POST /v1/…     the response, after the delay that was set; at once if there is no marker
POST /_set     {"delay": seconds, "reset": true}
POST /_answer  respond now to all requests that wait
GET /_stats    {"requests", "waiting", "most_waiting", "first"}
GET /_log      [[marker, arrived], …]
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any

MARKER = re.compile(rb"BENCH-([A-Za-z0-9_]+)")
LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
TEXT = ("The document says what a document says. " * 25).strip()
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5-mini",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 800,
        "output_tokens": 200,
        "total_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}


def encoded(content: Any) -> bytes:
    """Return a whole HTTP response with this content as JSON."""
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_1\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


ANSWER = encoded(RESPONSE)


class Script:
    """Holds the delay, what was requested, and the requests that wait for their response."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.log: list[tuple[str, float]] = []
        self.timers: dict[Connection, asyncio.TimerHandle] = {}
        self.most_waiting = 0

    def requested(self, connection: Connection, body: bytes) -> None:
        found = MARKER.search(body)
        self.log.append((found[1].decode() if found else "", time.time()))
        if self.delay <= 0 or found is None:
            connection.send(ANSWER)
            return
        self.timers[connection] = asyncio.get_running_loop().call_later(self.delay, self.answer, connection)
        self.most_waiting = max(self.most_waiting, len(self.timers))

    def answer(self, connection: Connection) -> None:
        timer = self.timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
            connection.send(ANSWER)

    def ordered(self, path: bytes, body: bytes) -> Any:
        """Carry out an order of the benchmark, and return what to respond."""
        if path == b"/_log":
            return self.log
        if path == b"/_answer":
            for connection in list(self.timers):
                self.answer(connection)
        if path == b"/_set":
            wish = json.loads(body)
            self.delay = float(wish.get("delay", self.delay))
            if wish.get("reset"):
                self.log, self.most_waiting = [], len(self.timers)
        return {
            "requests": len(self.log),
            "waiting": len(self.timers),
            "most_waiting": self.most_waiting,
            "first": self.log[0][1] if self.log else None,
        }


class Connection(asyncio.Protocol):
    """Represents one kept-alive connection, with one request at a time."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        timer = self._script.timers.pop(self, None)
        if timer is not None:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            path = head.split(b" ", 2)[1]
            if path.startswith(b"/v1/"):
                self._script.requested(self, body)
            else:
                self.send(encoded(self._script.ordered(path, body)))

    def send(self, message: bytes) -> None:
        assert self._transport is not None
        self._transport.write(message)


async def serve(port: int) -> None:
    """Listen on loopback until the process is stopped."""
    script = Script()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(script), "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
