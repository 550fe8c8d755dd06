"""`python -m tasks preflight --measure-grace`: the host runs it in place of a worker, until the host stops it.

It records in the database that it is still running, several times a second after the stop signal, and does not stop.
When the host kills it, the last record shows how long it was allowed to run. The next `preflight` reads that.
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

MAX_SECONDS = 600.0
WAITING_BEAT_SECONDS = 1.0
STOPPING_BEAT_SECONDS = 0.2
READY = (
    "Waiting to be stopped. Stop this process now as the host stops a worker: deploy, restart, or scale to none. "
    "Afterwards, python -m tasks preflight says how long it was let live."
)


def measure(settings: Settings) -> int:
    """Run until killed, or for MAX_SECONDS after the first signal, and return the exit code."""
    signals: queue.SimpleQueue[str] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(signal.Signals(received).name))
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    database = Database(settings, "waybill-grace")
    database.require()
    with database.transaction() as session:
        shutdown_probe.begin(session, name)
    print(READY, flush=True)
    first: float | None = None
    while first is None or time.monotonic() - first < MAX_SECONDS:
        received = _next(signals, WAITING_BEAT_SECONDS if first is None else STOPPING_BEAT_SECONDS)
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


def _next(signals: queue.SimpleQueue[str], wait_seconds: float) -> str | None:
    try:
        return signals.get(timeout=wait_seconds)
    except queue.Empty:
        return None
