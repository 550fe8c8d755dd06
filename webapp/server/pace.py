"""How fast bytes pass, counted over windows of time: a burst earns no credit for a long rest."""

from __future__ import annotations


class Pace:
    """The bytes of one body, or of the answers that wait for one reader."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.count = 0
        self.recent = 0.0
        """What passed lately: of what passed earlier it holds half as much with each time it is faded."""
        self._window_began = 0.0
        self._window_count = 0

    def reset(self) -> None:
        """Count nothing for now."""
        self.began = None

    def begin(self, now: float) -> None:
        """Count from now on, unless that is so already."""
        if self.began is None:
            self.began = self._window_began = now
            self.count = self._window_count = 0
            self.recent = 0.0

    def add(self, count: int) -> None:
        """Note that so many passed."""
        self.count += count
        self.recent += count
        self._window_count += count

    def fade(self) -> None:
        """Let what has passed count half as much in `recent`."""
        self.recent /= 2

    def is_below(self, bytes_per_second: float, now: float, window_seconds: float) -> bool:
        """Whether a window has ended in which less passed than it should. Begins the next one otherwise."""
        age = now - self._window_began
        if self.began is None or age < window_seconds:
            return False
        if self._window_count < bytes_per_second * age:
            return True
        self._window_began, self._window_count = now, 0
        return False

    def age(self, now: float) -> float:
        """For how long it has been counted."""
        return 0.0 if self.began is None else now - self.began
