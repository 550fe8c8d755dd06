"""Detects requests that htmx made."""

from __future__ import annotations

from flask import request


def is_htmx() -> bool:
    """Return True if the page asked for a fragment. Forms and links work without htmx."""
    return bool(getattr(request, "htmx", False))
