"""Which addresses are downloads, learnt from the answers they gave.

Making a large answer takes a thread and much of a processor, and keeping it until a slow reader has it takes room. So
what is known to be large waits in a line of its own, and small pages never wait behind it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

MAX_KNOWN = 4096


class Downloads:
    """The lengths of large answers by path, without what stands behind a question mark; the latest ones."""

    def __init__(self, min_bytes: int) -> None:
        self._min_bytes = min_bytes
        self._lock = threading.Lock()
        self._lengths: OrderedDict[str, int] = OrderedDict()

    def learn(self, path: str, length: int) -> None:
        """Take note of how long an answer is."""
        with self._lock:
            if length < self._min_bytes:
                self._lengths.pop(path, None)
                return
            self._lengths[path] = length
            self._lengths.move_to_end(path)
            if len(self._lengths) > MAX_KNOWN:
                self._lengths.popitem(last=False)

    def length(self, path: str) -> int:
        """How long the last answer was there; 0 for small ones, and where it is not known."""
        with self._lock:
            return self._lengths.get(path, 0)
