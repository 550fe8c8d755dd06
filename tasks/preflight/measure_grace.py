"""`python -m tasks preflight --measure-grace`: run by the host where a worker would run, until the host stops it.

It writes a sign of life into the database, several times a second once it was told to stop, and does not stop. When
the host kills it, the last sign says for how long it was let live. The next `preflight` reads that.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import time
import uuid

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Database
from tasks.ledger.history import shutdown_probe
from tasks.settings import Settings

log = structlog.get_logger()

LONGEST_SECONDS = 600.0
WAITING_BEAT_SECONDS = 1.0
TOLD_BEAT_SECONDS = 0.2
READY = (
    "Waiting to be stopped. Stop this process now as the host stops a worker: deploy, restart, or scale to none. "
    "Afterwards, python -m tasks preflight says how long it was let live."
)


def measure(settings: Settings) -> int:
    """Live on until killed, or for LONGEST_SECONDS after the first signal. The exit code."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: told.put(signal.Signals(received).name))
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    database = Database(settings, "waybill-grace")
    database.require()
    with database.transaction() as session:
        shutdown_probe.begin(session, name)
    print(READY, flush=True)
    first: float | None = None
    while first is None or time.monotonic() - first < LONGEST_SECONDS:
        received = _next(told, WAITING_BEAT_SECONDS if first is None else TOLD_BEAT_SECONDS)
        if received is not None and first is None:
            first = time.monotonic()
        try:
            with database.transaction() as session:
                shutdown_probe.beat(session, name, signal=received)
        except SQLAlchemyError as error:
            log.warning("grace.unrecorded", error=type(error).__name__)
    with database.transaction() as session:
        shutdown_probe.end(session, name)
    database.close()
    return 0


def _next(told: queue.SimpleQueue[str], wait_seconds: float) -> str | None:
    try:
        return told.get(timeout=wait_seconds)
    except queue.Empty:
        return None
