"""Handles deliveries: `deliver`, the function that every message names, and the handler that it calls."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable

import structlog
from structlog.contextvars import bound_contextvars

from tasks.database import error_name, is_out_of_reach
from tasks.fault_points import fault_point
from tasks.ledger.delivery import outbox
from tasks.ledger.errors import AttemptTimedOut
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.observability import sentry, tracing
from tasks.observability.logs import log_fields
from tasks.queue import MESSAGE_VERSION
from tasks.worker.attempt import Tools, work_on
from tasks.worker.heartbeat import Heartbeat
from tasks.worker.isolation import Isolation

log = structlog.get_logger()

CLAIM_WITHIN_SECONDS = 5.0  # if the database is away for longer, the delivery is sent again later


class DeliveryHandler:
    """Handles deliveries from the queue. `closed` is set when no new ones may start."""

    def __init__(self, tools: Tools, heartbeat: Heartbeat, worker: str, freed: Callable[[], None]) -> None:
        self.freed = freed  # called after each delivery: another message may be sent
        self.tools = tools
        self.heartbeat = heartbeat
        self.worker = worker
        self.closed = threading.Event()
        self.isolation = Isolation()
        self._jobs: set[uuid.UUID] = set()
        self._lock = threading.Lock()

    def handle(self, job_id: uuid.UUID) -> str:
        """Claim the job and work on it. Return in a few words how the delivery ended, for RQ's own record."""
        with self._lock:
            if job_id in self._jobs:  # a second message; the claim below takes what this worker holds for its own
                return self._refused(job_id, Refused("held"))
            self._jobs.add(job_id)
        try:
            return self._handle_in_isolation(job_id)
        finally:
            with self._lock:
                self._jobs.discard(job_id)

    def _handle_in_isolation(self, job_id: uuid.UUID) -> str:
        wait_seconds = self.tools.settings.attempt_seconds
        # Where this waits for too long, the delivery stays owed and is sent again.
        with self.isolation.beside_others(timeout=wait_seconds) as entered:
            claim = self._claim(job_id, alone=False) if entered else Refused("others first")
            if not isinstance(claim, Refused) or claim.reason != "suspect":
                return self._work_on(claim, job_id)
        with self.isolation.alone(timeout=wait_seconds) as let_others_in:
            claim = self._claim(job_id, alone=True) if let_others_in else Refused("others first")
            return self._work_on(claim, job_id, after_reading=let_others_in)

    def _claim(self, job_id: uuid.UUID, *, alone: bool) -> Claim | Refused:
        settings, database = self.tools.settings, self.tools.database
        if self.closed.is_set():
            with database.transaction() as session:
                outbox.reschedule(session, job_id)
            return Refused("shutting down")
        tries = itertools.count()
        return database.persist(
            lambda session: transitions.claim(
                session,
                job_id,
                worker=self.worker,
                lane=settings.lane,
                lease_seconds=settings.lease_seconds,
                reservation_seconds=settings.reservation_seconds,
                alone=alone,
                repeated=next(tries) > 0,
            ),
            for_seconds=CLAIM_WITHIN_SECONDS,
        )

    def _refused(self, job_id: uuid.UUID, refused: Refused) -> str:
        log.info("delivery.refused", job=job_id.hex, reason=refused.reason)
        return f"refused: {refused.reason}"

    def _work_on(
        self, claim: Claim | Refused, job_id: uuid.UUID, *, after_reading: Callable[[], None] | None = None
    ) -> str:
        if isinstance(claim, Refused):
            return self._refused(job_id, claim)
        with (
            self.heartbeat.hold(claim, after_reading=after_reading) as held_claim,
            bound_contextvars(generation=claim.generation),
            tracing.span("job.attempt", job=job_id.hex, generation=claim.generation, attempt=claim.attempt) as facts,
        ):
            facts["state"] = state = str(work_on(held_claim, self.tools))
            return state


_handler: DeliveryHandler | None = None


def set_handler(handler: DeliveryHandler | None) -> None:
    """Set the handler of this process. RQ calls `deliver` by its name, so the handler cannot be passed to it."""
    global _handler
    _handler = handler


def deliver(v: object = None, job: object = None, delivery: object = None, **newer: object) -> str:
    """Handle the delivery of one message; every message in the queue names this function.

    Never raises: failures are recorded in the ledger, not in Redis.
    """
    if v != MESSAGE_VERSION or newer:
        # RQ keeps the message for an hour for inspection. The delivery stays owed, and is sent again in the version of
        # the dispatcher that sends it.
        log.warning("delivery.of_another_version", version=str(v)[:20], fields=len(newer), job=str(job)[:32])
        return "left for other code"
    try:
        job_id = uuid.UUID(str(job))
    except ValueError:
        log.warning("delivery.forged")
        return "not a job"
    if _handler is None:
        return "not taken: this process is no worker"
    fault_point("worker.received")
    number = delivery if isinstance(delivery, int) else None
    with bound_contextvars(job=job_id.hex, delivery=number):  # on every line that this thread logs
        return _handle(_handler, job_id)


def _handle(handler: DeliveryHandler, job_id: uuid.UUID) -> str:
    try:
        return handler.handle(job_id)
    except AttemptTimedOut:
        log.error("delivery.timed_out", job=job_id.hex)  # outside the attempt: the lease brings the job back
        return "timed out"
    except Exception as error:  # RQ would store and log it with its message. The lease brings the job back
        if is_out_of_reach(error):
            log.error("delivery.without_database", job=job_id.hex, error=error_name(error))
            return "the database cannot be reached"
        log.error("delivery.unexpected", **log_fields(error))
        sentry.report(error, "delivery.unexpected", job=job_id.hex)
        return "failed in an unforeseen way"
    finally:
        handler.freed()
