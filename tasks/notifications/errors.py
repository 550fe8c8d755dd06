"""How a try to send a notice ends when it does not go well."""

from __future__ import annotations

GONE = "gone"
"""The code of a receiver that wants nothing any more, ever."""


class NotSent(Exception):
    """A try failed. `code` says how, in a word; `for_good`: another try would end the same way.

    `wait_seconds` is how long the other side asks to stay away, unbounded; None where it asks nothing.
    """

    def __init__(self, code: str, *, for_good: bool = False, wait_seconds: float | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.for_good = for_good
        self.wait_seconds = wait_seconds
