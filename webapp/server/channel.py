"""One connection: waitress's channel, with deadlines."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from waitress.channel import ClientDisconnected, HTTPChannel

from tasks.observability.logs import log_fields
from webapp.server.answers import AppAnswer, RefusedAnswer
from webapp.server.clients import client_of
from webapp.server.pace import Pace
from webapp.server.refusals import (
    BODY_TOO_SLOW,
    HEAD_TOO_SLOW,
    NO_ROOM_FOR_BODY,
    NO_ROOM_FOR_DOWNLOAD,
    Refusal,
    log,
)
from webapp.server.request_parser import RequestParser

if TYPE_CHECKING:
    from webapp.server.server import Server

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Overdue(Enum):
    """The phases in which a client can be too slow."""

    NOTHING_SENT = auto()
    HEAD = auto()
    BODY = auto()
    READING = auto()
    LEAVING = auto()


class Channel(HTTPChannel):
    """Represents a connection. Everything but `service`, `write_soon` and what they call runs in the main thread."""

    task_class = AppAnswer
    error_task_class = RefusedAnswer
    parser_class = RequestParser
    server: Server
    request: RequestParser | None
    total_outbufs_len: int

    def __init__(self, server: Server, sock: socket.socket, peer: str, port: str) -> None:
        now = time.monotonic()
        self.peer, self.port = peer, port
        self.waits_since = now
        self.body, self.reading = Pace(), Pace()
        self._answered = False
        self._left_at: float | None = None
        self._heard_at = now
        super().__init__(server, sock, (peer, 0), server.adj, map=server.loop)

    @property
    def fd(self) -> int | None:
        """Return the socket's file descriptor; None once it is closed."""
        return self._fileno  # type: ignore[no-any-return]

    # Receiving

    def handle_events(self, readable: bool, writable: bool) -> None:
        """Handle what the socket is ready for."""
        if readable:
            self._guarded(self.handle_read)
        if writable and self.fd is not None:
            self._guarded(self.handle_write)

    def _guarded(self, act: Callable[[], None]) -> None:
        """Call `act`. A bug, or a full disk, ends this connection and no other."""
        try:
            act()
        except Exception as error:
            log.error("connection.broken", **log_fields(error))
            self.handle_close()

    def readable(self) -> bool:
        """Return True if anything is expected from the client now."""
        return self._left_at is not None or bool(super().readable())

    def writable(self) -> bool:
        """Return True if data, or the end of the connection, waits to be sent."""
        return self._left_at is None and bool(super().writable())

    def handle_read(self) -> None:
        """Receive one piece of data at a time, so that no upload holds up the others."""
        if not self.readable():
            return
        try:
            data = self.socket.recv(self.adj.recv_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.handle_close()
        elif self._left_at is not None:
            self._heard_at = time.monotonic()
        else:
            self.received(data)
            self.server.make_room_for_bodies()

    def received(self, data: bytes) -> None:
        """Continue parsing a request, or begin one."""
        now, began = time.monotonic(), self.request is not None
        super().received(data)
        if self.request is None:
            self.body.reset()
            return
        if not began or self.requests:
            self.waits_since = now
        if self.request.headers_finished:
            self.body.begin(now)
            self.body.add(len(data))

    # Sending

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send what the kernel accepts. Only the main thread closes a connection that is gone."""
        try:
            count: int = self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.will_close = True
            self.server.loop.nudge(self)
            return 0
        self.reading.add(count)
        return count

    def write_soon(self, data: Any) -> int:
        """Send the data, or buffer it until it can be sent. Raises ClientDisconnected."""
        at_once = self.server.limits.buffer_bytes
        if isinstance(data, bytes) and len(data) > at_once:
            self._write_in_pieces(memoryview(data), at_once)
        else:
            super().write_soon(data)
        if self.total_outbufs_len:
            self.server.loop.nudge(self)
        return len(data)

    def _write_in_pieces(self, data: memoryview, at_once: int) -> None:
        """Write as waitress does, but without a second copy in memory of what goes to a file."""
        super().write_soon(data[:at_once])
        with self.outbuf_lock:
            for start in range(at_once, len(data), at_once):
                if not self.connected:
                    raise ClientDisconnected
                piece = data[start : start + at_once]
                self.outbufs[-1].append(piece)
                self.current_outbuf_count += len(piece)
                self.total_outbufs_len += len(piece)
                self._flush_exception(self._flush_some, do_close=False)

    def service(self) -> None:
        """Respond to the first waiting request, in this thread."""
        super().service()
        if not self.requests:
            self._answered = True
            self.waits_since = time.monotonic()
        self.server.loop.nudge(self)

    def abandon(self) -> None:
        """Give up on this connection. Callable from any thread."""
        self.will_close = True
        self.server.loop.nudge(self)

    def handle_write(self) -> None:
        """Send what is buffered; then close the connection if that is due."""
        if not self.requests:
            self._flush_exception(self._flush_some)
        elif self.total_outbufs_len:
            self._flush_exception(self._flush_some_if_lockable)
        if self.close_when_flushed and not self.total_outbufs_len:
            self._leave()
        if self.will_close:
            self.handle_close()

    def _leave(self) -> None:
        """Announce the end of the response, and wait until the client has noticed.

        Data that it still sends would otherwise trigger a reset, which would destroy our last response.
        """
        self.close_when_flushed = False
        self._left_at = self._heard_at = time.monotonic()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True

    def handle_close(self) -> None:
        """Close the connection now, with everything it holds."""
        if self.fd is None:
            return
        if self.request is not None:
            self.request.close()
            self.request = None
        super().handle_close()

    def refuse(self, refusal: Refusal) -> None:
        """Send a refusal instead of the app's response, and close. Only while no request is being processed."""
        self.count_refusal(refusal)
        if self.request is not None:
            self.request.close()
            self.request = None
        self.body.reset()
        response = refusal.in_full()
        with self.outbuf_lock:
            self.outbufs[-1].append(response)
            self.total_outbufs_len += len(response)
            self.close_when_flushed = True
        self.handle_write()
        self.server.loop.nudge(self)

    # Queries of other modules

    def ends_with_answer(self, request: RequestParser) -> bool:
        """Return True if the connection closes after the response to this request."""
        connection_option = request.headers.get("CONNECTION", "").lower()
        by_client = connection_option != "keep-alive" if request.version == "1.0" else "close" in connection_option
        return by_client or not self.server.keeps_connections

    def known_length(self) -> int:
        """Return the length of the next response if it is known to be a download; else 0."""
        if not self.requests or self.requests[0].error is not None or self.requests[0].command != "GET":
            return 0
        return self.server.downloads.length(self.requests[0].path)

    def learn(self, path: str, length: int) -> None:
        """Record the length of a response."""
        self.server.downloads.learn(path, length)

    def client(self) -> str:
        """Return the client of the next request."""
        return client_of(self.requests[0].headers, self.peer, self.server.proxy_hops)

    def refuse_download(self) -> None:
        """Respond to the next request with a refusal. Callable from any thread."""
        self.requests[0].error = NO_ROOM_FOR_DOWNLOAD
        self.server.add_task(self)

    def count_refusal(self, refusal: Refusal) -> None:
        """Count a refusal for the log."""
        self.server.refusals.count(refusal)

    @property
    def is_idle(self) -> bool:
        """True if nothing is in progress."""
        return self.request is None and not (self.requests or self.total_outbufs_len or self._left_at is not None)

    def has_had_time(self, now: float) -> bool:
        """Return True if the client of an idle connection has had time to send a request.

        The first request of a new connection may still be in transit.
        """
        return self._answered or now - self.waits_since > self.server.limits.linger_seconds

    @property
    def is_waiting(self) -> bool:
        """True if only the client is waited for: for its next request, or the rest of one."""
        return not self.requests and not self.total_outbufs_len

    @property
    def has_unfinished_body(self) -> bool:
        """True if a body is arriving."""
        return self.request is not None and bool(self.request.headers_finished)

    # Deadlines

    def is_overdue(self, now: float) -> bool:
        """Return True if the client is too slow. Call it once per sweep."""
        self.body.fade()
        self.reading.fade()
        return self._overdue(now) is not None

    def end_if_overdue(self, now: float) -> None:
        """Respond or close if the client is too slow. It may have continued since that was found."""
        overdue = None if self.fd is None else self._overdue(now)
        if overdue is not None:
            self._guarded(lambda: self._end(overdue))

    def _end(self, overdue: Overdue) -> None:
        if overdue is Overdue.HEAD:
            self.refuse(HEAD_TOO_SLOW)
        elif overdue is Overdue.BODY:
            self.refuse(BODY_TOO_SLOW)
        else:
            if overdue is Overdue.READING:
                self.server.refusals.count_closed("slow reader")
                self._reset()
            self.handle_close()

    def _overdue(self, now: float) -> Overdue | None:
        limits = self.server.limits
        if self._left_at is not None:
            quiet, all_in_all = now - self._heard_at, now - self._left_at
            over = quiet > limits.linger_seconds or all_in_all > limits.max_linger_seconds
            return Overdue.LEAVING if over else None
        if self.total_outbufs_len:
            self.reading.begin(now)
            slowest = limits.min_bytes_per_second
            if self.requests and self.total_outbufs_len > self.adj.outbuf_high_watermark:
                slowest = limits.min_bytes_per_second_with_thread
            return Overdue.READING if self.reading.is_below(slowest, now, limits.window_seconds) else None
        self.reading.reset()
        if self.requests:
            self.body.reset()  # data that came with an earlier request is not read meanwhile
            return None
        if self.has_unfinished_body:
            self.body.begin(now)
            too_slow = self.body.is_below(limits.min_bytes_per_second, now, limits.window_seconds)
            return Overdue.BODY if too_slow else None
        waited = now - self.waits_since
        if self.request is not None:
            return Overdue.HEAD if waited > limits.head_seconds else None
        patience = self.server.keepalive_seconds if self._answered else limits.head_seconds
        return Overdue.NOTHING_SENT if waited > patience else None

    def make_room(self, why: str) -> None:
        """Close the connection because others need the capacity."""
        if self.has_unfinished_body and self.is_waiting:
            self._guarded(lambda: self.refuse(NO_ROOM_FOR_BODY))
            return
        self.server.refusals.count_closed(why)
        self._reset()
        self.handle_close()

    def _reset(self) -> None:
        """Have the kernel drop its buffers for this client, too. It would offer them for minutes after a close."""
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
