"""The error of a failed try to send a notification."""

from __future__ import annotations

GONE = "gone"
"""Marks a receiver that has answered that it accepts no notifications any more."""


class NotSent(Exception):
    """Raised when a try fails. `code` names the failure in a word; `for_good` means that another try would fail too.

    `wait_seconds` is the wait that the server asks for, without an upper limit; None if it asks for none.
    """

    def __init__(self, code: str, *, for_good: bool = False, wait_seconds: float | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.for_good = for_good
        self.wait_seconds = wait_seconds
