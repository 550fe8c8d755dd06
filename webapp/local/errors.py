"""The exception of this package."""

from __future__ import annotations


class CannotStart(Exception):
    """Raised if something cannot be started. The message is one sentence for the user: what happened, what to do."""
