"""Waits for the sockets of all connections at once, in the main thread.

waitress asks each connection in each turn what it waits for, which with a thousand of them takes longer than the turn's
work. Here the kernel keeps that list, and only connections that have changed are asked again.
"""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webapp.server.channel import Channel

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop(dict[int, "Channel"]):
    """Maps file descriptors to connections, as waitress expects. `wakeup` is a pipe that ends a wait."""

    def __init__(self, wakeup: tuple[int, int]) -> None:
        super().__init__()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, int] = {}
        self._changed: deque[Channel] = deque()
        self._wakeup, self._wake = wakeup
        self._woken = False
        self._selector.register(self._wakeup, READ, self._drain)

    def __setitem__(self, fd: int, channel: Channel) -> None:
        super().__setitem__(fd, channel)
        self._changed.append(channel)  # it is still being constructed, and is asked before the next wait

    def __delitem__(self, fd: int) -> None:
        super().__delitem__(fd)
        if self._watched.pop(fd, 0):
            self._selector.unregister(fd)

    def listen(self, fd: int, accept: Callable[[], None]) -> None:
        """Call `accept` whenever a client wants to connect."""
        self._selector.register(fd, READ, accept)

    def unlisten(self, fd: int) -> None:
        """Leave new clients waiting."""
        self._selector.unregister(fd)

    def nudge(self, channel: Channel) -> None:
        """Ask a connection again what it waits for. Callable from any thread."""
        self._changed.append(channel)
        if not self._woken:
            self._woken = True
            with suppress(BlockingIOError):  # a full pipe wakes it, too
                os.write(self._wake, b"n")

    def turn(self, seconds: float) -> None:
        """Wait at most `seconds`, then let each connection do what it can do now."""
        self._settle()
        for key, ready in self._selector.select(seconds):
            if callable(key.data):
                key.data()
            elif self.get(key.fd) is key.data is not None:  # otherwise it was closed in this turn
                key.data.handle_events(bool(ready & READ), bool(ready & WRITE))
                self._watch(key.data)
        self._settle()

    def close(self) -> None:
        """Close the selector."""
        self._selector.close()

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        self._woken = False

    def _settle(self) -> None:
        while self._changed:
            self._watch(self._changed.popleft())

    def _watch(self, channel: Channel) -> None:
        fd = channel.fd
        if fd is None:
            return
        if channel.will_close:
            channel.handle_close()
            return
        wanted = (READ if channel.readable() else 0) | (WRITE if channel.writable() else 0)
        watched = self._watched.get(fd, 0)
        if wanted == watched:
            return
        if not watched:
            self._selector.register(fd, wanted, channel)
        elif wanted:
            self._selector.modify(fd, wanted, channel)
        else:
            self._selector.unregister(fd)
        self._watched[fd] = wanted
