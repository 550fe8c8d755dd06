"""Measures the speed of a transfer over windows of time, so that a burst earns no credit for a long pause."""

from __future__ import annotations


class Pace:
    """Counts the bytes of one body, or of the responses that wait for one reader."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.count = 0
        self.recent = 0.0
        """A moving count of recent bytes: it is halved each time it is faded."""
        self._window_began = 0.0
        self._window_count = 0

    def reset(self) -> None:
        """Stop counting."""
        self.began = None

    def begin(self, now: float) -> None:
        """Start counting, unless that is already so."""
        if self.began is None:
            self.began = self._window_began = now
            self.count = self._window_count = 0
            self.recent = 0.0

    def add(self, count: int) -> None:
        """Count these bytes."""
        self.count += count
        self.recent += count
        self._window_count += count

    def fade(self) -> None:
        """Halve the weight of earlier bytes in `recent`."""
        self.recent /= 2

    def is_below(self, bytes_per_second: float, now: float, window_seconds: float) -> bool:
        """Return True if a window has ended in which too few bytes passed. Otherwise begins the next window."""
        age = now - self._window_began
        if self.began is None or age < window_seconds:
            return False
        if self._window_count < bytes_per_second * age:
            return True
        self._window_began, self._window_count = now, 0
        return False

    def age(self, now: float) -> float:
        """Return for how many seconds it has been counting."""
        return 0.0 if self.began is None else now - self.began
