"""Assigns requests to threads: pages in the order they came, a few downloads at a time, with turns between clients."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from tasks.observability.logs import log_fields
from webapp.server.refusals import log

if TYPE_CHECKING:
    from webapp.server.channel import Channel


class Turns:
    """Holds the threads of one process, and the requests that wait for them."""

    def __init__(self, threads: int, max_waiting_downloads: int) -> None:
        self._requests: deque[Channel] = deque()
        self._downloads: OrderedDict[str, deque[Channel]] = OrderedDict()
        self._max_waiting = max_waiting_downloads
        self._waiting = 0
        self._max_downloading = max(1, threads // 4)
        self._downloading = self._room = 0
        self._download_was_last = self._stopping = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._serve, name=f"request-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, channel: Channel) -> None:
        """Queue the next request of this connection."""
        with self._changed:
            self._requests.append(channel)
            self._changed.notify()

    def set_room(self, count: int) -> bool:
        """Set how many bytes of downloads may be created now. Returns True if some still have to wait."""
        with self._changed:
            self._room = count
            if count > 0 and self._waiting:
                self._changed.notify()
            return count <= 0 and self._waiting > 0

    def stop(self, seconds: float) -> None:
        """Start nothing more, and wait at most `seconds` for running requests."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(seconds / len(self._threads))

    def _serve(self) -> None:
        while True:
            with self._changed:
                taken = self._take()
                while taken is None and not self._stopping:
                    self._changed.wait()
                    taken = self._take()
            if taken is None:
                return
            channel, is_download = taken
            try:
                channel.service()
            except BaseException as error:  # a thread that ends would be missing forever
                log.error("request.broken", **log_fields(error))
                channel.abandon()
            if is_download:
                with self._changed:
                    self._downloading -= 1
                    self._changed.notify()

    def _take(self) -> tuple[Channel, bool] | None:
        if self._stopping:
            return None
        if self._download_was_last and self._requests:
            return self._take_request() or self._take_download()
        return self._take_download() or self._take_request()

    def _take_download(self) -> tuple[Channel, bool] | None:
        if self._downloading >= self._max_downloading or not self._waiting or self._room <= 0:
            return None
        client, waiting = next(iter(self._downloads.items()))
        channel = waiting.popleft()
        self._waiting -= 1
        self._downloads.move_to_end(client)
        if not waiting:
            del self._downloads[client]
        self._room -= channel.known_length()
        self._downloading += 1
        self._download_was_last = True
        return channel, True

    def _take_request(self) -> tuple[Channel, bool] | None:
        while self._requests:
            channel = self._requests.popleft()
            if not channel.known_length():
                self._download_was_last = False
                return channel, False
            if self._waiting >= self._max_waiting:
                channel.refuse_download()
                continue
            self._downloads.setdefault(channel.client(), deque()).append(channel)
            self._waiting += 1
            if (taken := self._take_download()) is not None:
                return taken
        return None
