"""Parses requests as waitress does, and refuses those that two servers in a row could read differently."""

from __future__ import annotations

import threading
from typing import Any

from waitress.buffers import OverflowableBuffer
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.utilities import BadRequest, RequestEntityTooLarge, RequestHeaderFieldsTooLarge

MAX_CONTROL_LINE_BYTES = 1024
MAX_TRAILER_BYTES = 8 * 1024
MAX_LENGTH_DIGITS = 18
VERSIONS = ("1.0", "1.1")


class KeptBodies:
    """Counts the stored bytes of the bodies of all requests that have no response yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.total = 0

    def add(self, count: int) -> None:
        """Add to the count; negative if a body is dropped."""
        with self._lock:
            self.total += count


class BoundedChunks(ChunkedReceiver):
    """Parses a chunked body with bounded lines between the chunks, and stores what arrived at once in one write."""

    def __init__(self, buffer: OverflowableBuffer) -> None:
        super().__init__(self)  # it receives the pieces itself: thousands of tiny chunks would be thousands of writes
        self._pieces: list[bytes] = []
        self._stored = buffer

    def append(self, piece: bytes) -> None:
        """Take the content of one chunk."""
        self._pieces.append(piece)

    def received(self, data: bytes) -> int:
        """Continue parsing. Returns how many bytes were consumed."""
        consumed: int = super().received(data)
        self._stored.append(b"".join(self._pieces))
        self._pieces.clear()
        if len(self.control_line) > MAX_CONTROL_LINE_BYTES or len(self.trailer) > MAX_TRAILER_BYTES:
            self.error = BadRequest("")
        return consumed

    def __len__(self) -> int:
        return len(self._stored)

    def getfile(self) -> object:
        """Return the file that the app reads."""
        return self._stored.getfile()

    def getbuf(self) -> OverflowableBuffer:
        """Return the buffer to close at the end."""
        return self._stored


class RequestParser(HTTPRequestParser):
    """Parses one request.

    `adj` are waitress's adjustments, with our `limits`, `kept_bodies` and `max_announced_bytes`.
    """

    command = path = ""
    expect_continue: bool
    error: Any
    body_rcv: Any
    _counted = 0
    _open = True

    def received(self, data: bytes) -> int:
        """Continue parsing. Returns how many bytes were consumed."""
        consumed: int = super().received(data)
        if self.content_length > self.adj.max_announced_bytes and self.expect_continue and self.error is None:
            self.error, self.completed = RequestEntityTooLarge(""), True
        if self.error is not None:
            self.expect_continue = False  # otherwise waitress would send "continue" for a refused request
        if self._open:
            self.adj.kept_bodies.add(self.body_bytes_received - self._counted)
            self._counted = self.body_bytes_received
        return consumed

    def close(self) -> None:
        """Drop the body."""
        super().close()
        if self._open:
            self._open = False
            self.adj.kept_bodies.add(-self._counted)

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the first line and the headers. Raises ParsingError."""
        lines = header_plus.split(b"\r\n")[1:]
        if len(lines) - 2 > self.adj.limits.max_header_fields:  # the last two are empty
            self.error = RequestHeaderFieldsTooLarge("")
            return
        _refuse_ambiguous(lines)
        super().parse_header(header_plus)
        if self.version not in VERSIONS or "TRANSFER_ENCODING" in self.headers:
            raise ParsingError("")  # HTTP/1.0 has no chunks, and a length beside them could hide a second request
        if self.chunked:
            self.body_rcv = BoundedChunks(self.body_rcv.getbuf())


def _refuse_ambiguous(lines: list[bytes]) -> None:
    if any(line.startswith((b" ", b"\t")) for line in lines):
        raise ParsingError("")
    fields = [line.partition(b":") for line in lines if line]
    named: dict[bytes, list[bytes]] = {}
    for name, _, value in fields:
        named.setdefault(name.lower(), []).append(value.strip(b" \t"))
    lengths, codings = named.get(b"content-length", []), named.get(b"transfer-encoding", [])
    if len(named.get(b"host", [])) > 1 or len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
        raise ParsingError("")
    if any(len(length) > MAX_LENGTH_DIGITS for length in lengths):
        raise ParsingError("")
    if any(coding.lower().count(b"chunked") > 1 or not coding for coding in codings):
        raise ParsingError("")
