"""Learns from earlier responses which paths are downloads.

Creating a large response takes a thread and much CPU time, and keeping it until a slow reader has it takes memory. So
responses that are known to be large wait in their own queue, and small pages never wait behind them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

MAX_KNOWN = 4096


class Downloads:
    """Holds the lengths of the latest large responses by path, without the query string."""

    def __init__(self, min_bytes: int) -> None:
        self._min_bytes = min_bytes
        self._lock = threading.Lock()
        self._lengths: OrderedDict[str, int] = OrderedDict()

    def learn(self, path: str, length: int) -> None:
        """Record the length of a response."""
        with self._lock:
            if length < self._min_bytes:
                self._lengths.pop(path, None)
                return
            self._lengths[path] = length
            self._lengths.move_to_end(path)
            if len(self._lengths) > MAX_KNOWN:
                self._lengths.popitem(last=False)

    def length(self, path: str) -> int:
        """Return the length of the last response for this path; 0 for small or unknown ones."""
        with self._lock:
            return self._lengths.get(path, 0)
