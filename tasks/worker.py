"""The worker: one RQ worker with many slots. An AI call is waiting, not computing, so one process holds many of them.

RQ's SimpleWorker dequeues while a slot is free and enforces the outer timeout; each delivery runs in a thread. What
the threads need (database, provider loop, intake, heartbeat) belongs to the process, see `tasks.process`.
With `tasks.queue`, the only module that imports rq or redis.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from redis import Redis
from redis.exceptions import RedisError
from rq.exceptions import DeserializationError, StopRequested
from rq.executions import Execution
from rq.job import Job
from rq.queue import Queue
from rq.timeouts import TimerDeathPenalty
from rq.worker import SimpleWorker
from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from tasks import sentry, traces
from tasks.attempt import Tools, work_on
from tasks.fault_points import reached
from tasks.heartbeat import Heartbeat
from tasks.ledger import outbox, transitions
from tasks.ledger.errors import AttemptTimedOut
from tasks.ledger.guarded import Refused
from tasks.logs import told
from tasks.queue import DELIVER, MESSAGE_VERSION
from tasks.slots import Slots

log = structlog.get_logger()

CLAIM_WITHIN_SECONDS = 5.0  # a database that is away for longer gets the delivery again later
OUR_ID = re.compile(r"[0-9a-f]{32}-\d{1,9}\Z")
DEQUEUE_SECONDS = 1  # how long one look into the queue waits, and so how fast a stop is noticed


class Desk:
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
            traces.span("job.attempt", job=job_id.hex, generation=claim.generation, attempt=claim.attempt) as facts,
        ):
            facts["state"] = became = str(work_on(held, self.tools))
            return became


_desk: Desk | None = None


def open_desk(desk: Desk | None) -> None:
    """Set where this process takes deliveries in. RQ calls `deliver` by name, so it cannot be handed over."""
    global _desk
    _desk = desk


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
    if _desk is None:
        return "not taken: no desk"
    reached("worker.received")
    number = delivery if isinstance(delivery, int) else None
    with bound_contextvars(job=job_id.hex, delivery=number):  # on every line that this thread logs
        return _take_in(_desk, job_id)


def _take_in(desk: Desk, job_id: uuid.UUID) -> str:
    try:
        return desk.take_in(job_id)
    except AttemptTimedOut:
        log.error("delivery.timed_out", job=job_id.hex)  # outside the attempt: the lease brings the job back
        return "timed out"
    except SQLAlchemyError as error:
        log.error("delivery.without_database", job=job_id.hex, error=type(error).__name__)
        return "the database cannot be reached"
    except Exception as error:  # RQ would keep it in Redis and log it, message and all; the lease brings the job back
        log.error("delivery.unexpected", **told(error))
        sentry.report(error, "delivery.unexpected", job=job_id.hex)
        return "failed in an unforeseen way"
    finally:
        desk.freed()


def is_ours(job: Job) -> bool:
    """Whether a message names the one function that messages may name, in the one format they are written in."""
    try:
        return bool(job.func_name == DELIVER)
    except DeserializationError:
        return False


class OuterLimit(TimerDeathPenalty):
    """RQ's timeout, raised as a BaseException of ours, which no `except Exception` can take for something else."""

    def __init__(self, timeout: int, exception: type[BaseException], **kwargs: Any) -> None:
        super().__init__(timeout, AttemptTimedOut, **kwargs)


class SlotWorker(SimpleWorker):
    """RQ's worker, with slots. Signals are the process's business; `stopping` ends the work between two looks."""

    death_penalty_class = OuterLimit
    exponential_backoff_factor = 1  # Redis that is back is used within a second or two

    def __init__(
        self, queue: Queue, connection: Redis, slots: Slots, stopping: threading.Event, is_done: Callable[[], bool]
    ) -> None:
        self.slots = slots
        self.stopping = stopping
        self.is_done = is_done
        super().__init__([queue], connection=connection, serializer="json", worker_ttl=60)

    @property
    def dequeue_timeout(self) -> int:
        """RQ derives its socket timeout from this; a Redis that hangs is noticed ten seconds later."""
        return DEQUEUE_SECONDS

    def _install_signal_handlers(self) -> None:
        """None of RQ's: its second SIGTERM leaves jobs half done."""

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """RQ waits for a Redis that is away for as long as it takes, and looks here only: this is where it hears of a
        stop, so that running work is handed back and not left to its lease."""
        try:
            super().heartbeat(timeout, pipeline)
        except RedisError:
            if self.stopping.is_set():
                raise StopRequested from None
            raise

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for a free slot first, so that what is taken out of the queue is worked on at once."""
        while not self.stopping.is_set():
            if not self.slots.take(DEQUEUE_SECONDS):
                self.heartbeat()
                continue
            found = None
            try:
                found = super().dequeue_job_and_maintain_ttl(DEQUEUE_SECONDS, DEQUEUE_SECONDS)
            finally:
                if found is None:
                    self.slots.give_back()
            if found is not None:
                return found
            if self.is_done():
                return None
        raise StopRequested

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Hand the delivery to a thread. The slot was taken before it was dequeued."""
        try:
            if not is_ours(job):
                self._throw_away(job, queue)
                self.slots.give_back()
                return
            execution = self.prepare_execution(job)
        except BaseException:
            self.slots.give_back()
            raise
        self.slots.run(lambda: self._perform(job, queue, execution))

    def _throw_away(self, job: Job, queue: Queue) -> None:
        """RQ would call whatever function a message names; somebody who can write to Redis must not choose it."""
        ours = OUR_ID.match(job.id)  # a newer release may name another function; the delivery stays owed
        log.warning("message.not_ours", message=job.id if ours else "of a stranger")
        self.connection.lrem(queue.intermediate_queue_key, 1, job.id)
        job.delete()

    def _perform(self, job: Job, queue: Queue, execution: Execution) -> None:
        try:
            self.perform_job(job, queue, execution)
        except RedisError as error:
            # RQ could not write its own record. The ledger has ours; a delivery that was not claimed is still owed.
            log.warning("delivery.unrecorded_by_rq", message=job.id, error=type(error).__name__)
