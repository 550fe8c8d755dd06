"""Takes in deliveries: the function that every message names, and what it needs."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from tasks.fault_points import fault_point
from tasks.ledger.delivery import outbox
from tasks.ledger.errors import AttemptTimedOut
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Refused
from tasks.observability import sentry, tracing
from tasks.observability.logs import log_fields
from tasks.queue import MESSAGE_VERSION
from tasks.worker.attempt import Tools, work_on
from tasks.worker.heartbeat import Heartbeat

log = structlog.get_logger()

CLAIM_WITHIN_SECONDS = 5.0  # a database that is away for longer gets the delivery again later


class DeliveryHandler:
    """Where deliveries are taken in: what they need, and whether new ones are taken at all."""

    def __init__(self, tools: Tools, heartbeat: Heartbeat, worker: str, freed: Callable[[], None]) -> None:
        self.freed = freed  # called after each delivery: there is room for another message
        self.tools = tools
        self.heartbeat = heartbeat
        self.worker = worker
        self.closed = threading.Event()

    def take_in(self, job_id: uuid.UUID) -> str:
        """Claim the job and work on it. What became of the delivery, in a word, for RQ's own record."""
        settings, database = self.tools.settings, self.tools.database
        if self.closed.is_set():
            with database.transaction() as session:
                outbox.hand_over_again(session, job_id)
            return "not taken: shutting down"
        claim = database.persist(
            lambda session: transitions.claim(
                session,
                job_id,
                worker=self.worker,
                lane=settings.lane,
                lease_seconds=settings.lease_seconds,
                reservation_seconds=settings.reservation_seconds,
            ),
            for_seconds=CLAIM_WITHIN_SECONDS,
        )
        if isinstance(claim, Refused):
            log.info("delivery.refused", job=job_id.hex, reason=claim.reason)
            return f"refused: {claim.reason}"
        with (
            self.heartbeat.hold(claim) as held,
            bound_contextvars(generation=claim.generation),
            tracing.span("job.attempt", job=job_id.hex, generation=claim.generation, attempt=claim.attempt) as facts,
        ):
            facts["state"] = became = str(work_on(held, self.tools))
            return became


_handler: DeliveryHandler | None = None


def set_handler(desk: DeliveryHandler | None) -> None:
    """Set where this process takes deliveries in. RQ calls `deliver` by name, so it cannot be handed over."""
    global _handler
    _handler = desk


def deliver(v: object = None, job: object = None, delivery: object = None, **newer: object) -> str:
    """What every message in the queue names. Never raises: what went wrong stands in the ledger, not in Redis."""
    if v != MESSAGE_VERSION or newer:
        # Parked: RQ keeps the message for an hour to be looked at, and the delivery stays owed, to be sent again in the
        # version of whoever dispatches it then.
        log.warning("delivery.of_another_version", version=str(v)[:20], fields=len(newer), job=str(job)[:32])
        return "left for other code"
    try:
        job_id = uuid.UUID(str(job))
    except ValueError:
        log.warning("delivery.forged")
        return "not a job"
    if _handler is None:
        return "not taken: no desk"
    fault_point("worker.received")
    number = delivery if isinstance(delivery, int) else None
    with bound_contextvars(job=job_id.hex, delivery=number):  # on every line that this thread logs
        return _take_in(_handler, job_id)


def _take_in(desk: DeliveryHandler, job_id: uuid.UUID) -> str:
    try:
        return desk.take_in(job_id)
    except AttemptTimedOut:
        log.error("delivery.timed_out", job=job_id.hex)  # outside the attempt: the lease brings the job back
        return "timed out"
    except SQLAlchemyError as error:
        log.error("delivery.without_database", job=job_id.hex, error=type(error).__name__)
        return "the database cannot be reached"
    except Exception as error:  # RQ would keep it in Redis and log it, message and all; the lease brings the job back
        log.error("delivery.unexpected", **log_fields(error))
        sentry.report(error, "delivery.unexpected", job=job_id.hex)
        return "failed in an unforeseen way"
    finally:
        desk.freed()
