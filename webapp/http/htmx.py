"""Whether a request was made by htmx, and the few answers it understands."""

from __future__ import annotations

from flask import request


def is_htmx() -> bool:
    """Whether the page asked for a fragment. Forms and links work without it."""
    return bool(getattr(request, "htmx", False))
