"""Turns documents into text, in a child process that can be killed, within limits of time, memory and size.

Only the child imports `extract` and the parsers below it, since these parse hostile files. `sniff` and `clean` parse
nothing and may be used anywhere.
"""

from __future__ import annotations

import threading

from tasks.intake.clean import clean
from tasks.intake.errors import DocumentRefused, ReadCancelled, Refusal
from tasks.intake.file_types import Kind, sniff
from tasks.intake.sandbox.pool import IntakePool, NoReaderFree
from tasks.intake.types import Limits, Reading

__all__ = [
    "DocumentRefused",
    "IntakePool",
    "Kind",
    "Limits",
    "NoReaderFree",
    "ReadCancelled",
    "Reading",
    "Refusal",
    "clean",
    "read_document",
    "sniff",
]

_shared: IntakePool | None = None
_shared_lock = threading.Lock()


def read_document(data: bytes, filename: str | None, limits: Limits) -> Reading:
    """Read `data` with the pool of this process, which the first call creates. Raises as `IntakePool.read` does."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = IntakePool()
    return _shared.read(data, filename, limits)
