"""How a try to send a notice ends when it does not go well."""

from __future__ import annotations


class NotSent(Exception):
    """A try failed. `code` says how, in a word; `for_good`: another try would end the same way."""

    def __init__(self, code: str, *, for_good: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.for_good = for_good
