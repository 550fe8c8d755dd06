"""Bytes → text, in a child process that can be killed, within limits of time, memory and size.

Hostile files are met by parsers in `extract` and below, which only the child imports. `sniff` and `clean` parse
nothing and may be used anywhere.
"""

from __future__ import annotations

import threading

from tasks.intake.clean import clean
from tasks.intake.errors import DocumentRefused, ReadAbandoned, Refusal
from tasks.intake.file_types import Kind, sniff
from tasks.intake.sandbox.pool import IntakePool
from tasks.intake.types import Limits, Reading

__all__ = [
    "DocumentRefused",
    "IntakePool",
    "Kind",
    "Limits",
    "ReadAbandoned",
    "Reading",
    "Refusal",
    "clean",
    "read_document",
    "sniff",
]

_shared: IntakePool | None = None
_shared_lock = threading.Lock()


def read_document(data: bytes, filename: str | None, limits: Limits) -> Reading:
    """Read `data` with this process's own pool, made at the first use. Raises as `IntakePool.read` does."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = IntakePool()
    return _shared.read(data, filename, limits)
