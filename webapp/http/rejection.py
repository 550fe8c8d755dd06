"""The exception for refused requests, with a message for the user."""

from __future__ import annotations

from collections.abc import Mapping


class NotAccepted(Exception):
    """Raised if nothing was recorded. `field` names the form field, `message` is the message for the user.

    `headers` are added to the response, and `facts` are passed to scripts beside the message.
    """

    headers: Mapping[str, str] = {}
    facts: Mapping[str, str] = {}

    def __init__(self, code: str, message: str, *, field: str, status: int = 422) -> None:
        super().__init__(code)
        self.code = code
        self.message = str(message)  # translated now, while the user's language is active
        self.field = field
        self.status = status

    @property
    def shown_message(self) -> object:
        """Return the message as a page shows it."""
        return self.message
