"""One web process: its sockets, connections and threads, and its shutdown."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from waitress.adjustments import Adjustments

from webapp.server.channel import Channel
from webapp.server.downloads import Downloads
from webapp.server.limits import Limits, connections_within_file_limit
from webapp.server.loop import Loop
from webapp.server.memory import give_back_large_blocks
from webapp.server.refusals import RefusalLog, log
from webapp.server.request_parser import KeptBodies
from webapp.server.turns import Turns

RECEIVE_BYTES = 16 * 1024
ACCEPTED_AT_ONCE = 8
ENDED_AT_ONCE = 16
"""Attackers connect and leave at the same moment. After this many, the other connections are served."""
DOWNLOAD_MAY_TAKE_SECONDS = 5.0
"""Seconds after which the slowest reader is closed while downloads wait. Faster readers may take longer."""
YOUNG_SECONDS = 1.0


class Worker(Protocol):
    """The part of gunicorn's worker that is used here."""

    alive: bool
    ppid: int
    cfg: Any
    sockets: list[Any]
    wsgi: Any
    nr: int
    max_requests: int
    PIPE: tuple[int, int]

    def notify(self) -> None:
        """Tell gunicorn's first process that this one is alive."""


class Server:
    """Serves until the worker is told to stop. It is the server of waitress's connections."""

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self._worker, self.limits = worker, limits
        self.keepalive_seconds = worker.cfg.keepalive
        self.max_connections = connections_within_file_limit(limits.max_connections)
        self.adj = _adjustments(limits, getattr(worker.wsgi, "config", {}).get("MAX_CONTENT_LENGTH"))
        self.proxy_hops = _proxy_hops(worker.wsgi)
        self.server_name, self.effective_port = self.adj.server_name, ""
        self.active_channels: dict[int, Channel] = {}
        self.loop = Loop((worker.PIPE[0], worker.PIPE[1]))
        self.downloads = Downloads(limits.download_bytes)
        self.refusals = RefusalLog()
        self._listeners = {sock.fileno(): sock for sock in (one.sock for one in worker.sockets)}
        self._listening = False
        self._swept_at = 0.0
        self._overdue: deque[Channel] = deque()
        self.turns = Turns(worker.cfg.threads, self.max_connections // 2)

    # For waitress

    def application(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Pass a request to the app, and count it: after enough of them gunicorn replaces this process."""
        worker = self._worker
        worker.nr += 1
        if worker.nr >= worker.max_requests and worker.alive:
            log.info("web.recycled", requests=worker.nr)
            worker.alive = False
        return worker.wsgi(environ, start_response)

    def add_task(self, channel: Channel) -> None:
        """Queue the next request of a connection."""
        self.turns.add(channel)

    def pull_trigger(self) -> None:
        """Do nothing: connections wake the main thread themselves."""

    @property
    def keeps_connections(self) -> bool:
        """True if a connection stays open after a response."""
        return bool(self._worker.alive and self.keepalive_seconds)

    # Serving

    def run(self) -> None:
        """Serve until told to stop, then finish within the grace period."""
        self._listen(True)
        while self._worker.alive and self._worker.ppid == os.getppid():
            self._turn(self.limits.sweep_seconds)
        self._worker.alive = False
        self._finish()
        self.refusals.write()
        self.turns.stop(0.5)
        self.loop.close()

    def _finish(self) -> None:
        """Respond to requests in progress, and for a moment to new ones on open connections, as their last."""
        began = time.monotonic()
        while time.monotonic() - began < self._worker.cfg.graceful_timeout:
            self._turn(0.05)
            now = time.monotonic()
            if now - began > self.limits.linger_seconds or not self.active_channels:
                self._close_listeners()
                for channel in self._connections():
                    if channel.is_idle and channel.has_had_time(now):
                        channel.handle_close()
            if not self.active_channels:
                break

    def _turn(self, seconds: float) -> None:
        self._worker.notify()
        self.loop.turn(0 if self._overdue else seconds)
        now = time.monotonic()
        if now - self._swept_at >= self.limits.sweep_seconds:
            self._swept_at = now
            self._sweep(now)
        for _ in range(min(ENDED_AT_ONCE, len(self._overdue))):
            self._overdue.popleft().end_if_overdue(now)

    def _sweep(self, now: float) -> None:
        connections = self._connections()
        self._overdue = deque(channel for channel in connections if channel.is_overdue(now))
        unread = sum(channel.total_outbufs_len for channel in connections)
        room = self.limits.max_unread_bytes - unread
        if self.turns.set_room(room):
            self._end_slowest_reader(now, DOWNLOAD_MAY_TAKE_SECONDS)
        while room < -self.limits.max_unread_bytes and (freed := self._end_slowest_reader(now, YOUNG_SECONDS)):
            room += freed
        if self._worker.alive:
            self._listen(True)
        self.refusals.write()

    def _connections(self) -> list[Channel]:
        return list(self.active_channels.values())

    # Accepting

    def _close_listeners(self) -> None:
        """Accept the clients that have connected so far, then stop: the kernel resets those that are not accepted.

        Nothing runs between the last attempt and the close. A client that connects in that moment is reset.
        """
        if self._listeners:
            self._listen(False)
            for listener in self._listeners.values():
                for sock, address in _accept_rest_and_close(listener):
                    self._connect(sock, address)
            self._listeners = {}

    def _listen(self, wanted: bool) -> None:
        if wanted == self._listening:
            return
        for fd, listener in self._listeners.items():
            if wanted:
                self.loop.listen(fd, partial(self._accept, listener))
            else:
                self.loop.unlisten(fd)
        self._listening = wanted

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if len(self.active_channels) >= self.max_connections and not self._end_longest_waiting():
                self._listen(False)  # all are in use; checked again at the next sweep
                return
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("connection.not_accepted", error=type(error).__name__, number=error.errno)
                return
            self._connect(sock, address)

    def _connect(self, sock: socket.socket, address: Any) -> None:
        try:
            peer, port = ("", "") if sock.family == socket.AF_UNIX else (address[0], str(sock.getsockname()[1]))
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        except OSError:  # the client is already gone
            sock.close()
            return
        Channel(self, sock, peer, port)

    # Freeing capacity

    def _end_longest_waiting(self) -> bool:
        """Close the connection whose client has been waited for longest; without any, the slowest reader's."""
        now = time.monotonic()
        waiting = [channel for channel in self._connections() if channel.is_waiting]
        if waiting:
            min(waiting, key=lambda channel: channel.waits_since).make_room("too many connections")
            return len(self.active_channels) < self.max_connections
        return self._end_slowest_reader(now, YOUNG_SECONDS) > 0

    def _end_slowest_reader(self, now: float, min_seconds: float) -> int:
        """Close the connection that reads its response most slowly. Returns how many bytes that frees."""
        readers = [
            channel
            for channel in self._connections()
            if channel.total_outbufs_len and channel.reading.age(now) >= min_seconds
        ]
        if not readers:
            return 0
        slowest = min(readers, key=lambda channel: channel.reading.recent)
        freed = slowest.total_outbufs_len
        slowest.make_room("room for other answers")
        return freed

    def make_room_for_bodies(self) -> None:
        """Refuse the slowest arriving bodies while the stored bytes of pending requests exceed the limit."""
        while self.adj.kept_bodies.total > self.limits.max_all_bodies_bytes:
            arriving = [
                channel
                for channel in self._connections()
                if channel.has_unfinished_body and channel.body.count >= self.limits.buffer_bytes
            ]
            if not arriving:
                return
            min(arriving, key=lambda channel: channel.body.recent).make_room("room for other bodies")


def _accept_rest_and_close(listener: socket.socket) -> list[tuple[socket.socket, Any]]:
    rest = []
    with suppress(OSError):  # no client is left, or no file descriptor
        while True:
            rest.append(listener.accept())
    listener.close()
    return rest


def _adjustments(limits: Limits, max_announced_bytes: int | None) -> Adjustments:
    """Return waitress's settings, with the attributes that our parser reads."""
    adj = Adjustments(
        ident=None,
        clear_untrusted_proxy_headers=False,  # ProxyFix evaluates them
        recv_bytes=RECEIVE_BYTES,
        inbuf_overflow=limits.buffer_bytes,
        outbuf_overflow=limits.buffer_bytes,
        outbuf_high_watermark=limits.stream_bytes,
        max_request_header_size=limits.max_head_bytes,
        max_request_body_size=limits.max_body_bytes + 1,
        channel_request_lookahead=0,
        log_socket_errors=False,
    )
    adj.limits = limits
    adj.kept_bodies = KeptBodies()
    adj.max_announced_bytes = max_announced_bytes or limits.max_body_bytes
    return adj


def _proxy_hops(app: Any) -> int:
    settings = getattr(app, "config", {}).get("WAYBILL")
    return 0 if settings is None else int(settings.proxy_hops)


def serve(worker: Worker, limits: Limits) -> None:
    """Run the main loop of a gunicorn worker."""
    if worker.cfg.is_ssl:
        raise SystemExit("TLS ends at the proxy in front: take certfile and keyfile out of gunicorn's settings.")
    give_back_large_blocks()
    Server(worker, limits).run()
