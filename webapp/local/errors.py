"""The one error of this package."""

from __future__ import annotations


class CannotStart(Exception):
    """Raised when something cannot be started. The message is one sentence for a person: what happened, what to do."""
