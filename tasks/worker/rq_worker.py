"""RQ's worker, with slots, and without RQ's signals, timeouts and retries."""

from __future__ import annotations

import math
import re
import threading
import time
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

from tasks.ledger.errors import AttemptTimedOut
from tasks.queue import DELIVER
from tasks.worker.slots import Slots

log = structlog.get_logger()

DELIVERY_ID = re.compile(r"[0-9a-f]{32}-\d{1,9}\Z")

DEQUEUE_SECONDS = 5
"""Seconds that one dequeue waits. A signal ends the wait at once, see `break_off_waiting`."""
BURST_DEQUEUE_SECONDS = 1
SLOT_WAIT_SECONDS = 1
"""Seconds of one wait for a free slot, and so how soon a stop is noticed while every slot is busy."""
HEARTBEAT_SECONDS = 20
"""The least time between two of RQ's heartbeats. It forgets a worker only after two minutes without one."""


def is_delivery_job(job: Job) -> bool:
    """Return True if a message names the only function that messages may name, in the only format that we write."""
    try:
        return bool(job.func_name == DELIVER)
    except DeserializationError:
        return False


class OuterLimit(TimerDeathPenalty):
    """Raises RQ's timeout as our AttemptTimedOut: a BaseException, so that no `except Exception` swallows it."""

    def __init__(self, timeout: int, exception: type[BaseException], **kwargs: Any) -> None:
        super().__init__(timeout, AttemptTimedOut, **kwargs)


class SlotWorker(SimpleWorker):
    """Runs RQ's worker with slots. `WorkerProcess` handles signals; `stopping` ends the loop between two dequeues."""

    death_penalty_class = OuterLimit
    exponential_backoff_factor = 1  # a Redis that is back is used within a second or two

    def __init__(
        self,
        queue: Queue,
        connection: Redis,
        slots: Slots,
        stopping: threading.Event,
        is_done: Callable[[], bool],
        *,
        burst: bool,
    ) -> None:
        self.is_waiting = False  # for a message, so that a signal may break the wait off
        self._dequeue_seconds = BURST_DEQUEUE_SECONDS if burst else DEQUEUE_SECONDS
        self.slots = slots
        self.stopping = stopping
        self.is_done = is_done
        self._sent_heartbeat_at = -math.inf
        super().__init__([queue], connection=connection, serializer="json", worker_ttl=60)

    @property
    def dequeue_timeout(self) -> int:
        """Return the seconds that a dequeue waits. RQ's socket timeout is ten more, and notices a Redis that hangs."""
        return self._dequeue_seconds

    def _install_signal_handlers(self) -> None:
        """Install none of RQ's handlers: with them a second SIGTERM leaves jobs half done."""

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Send RQ's heartbeat if one is due, and raise StopRequested if Redis is away while the process stops.

        RQ calls this several times for each message, and a Redis may be billed by commands.

        RQ waits for a Redis that is away without limit, and calls only this method meanwhile. Without the check here a
        stop would go unnoticed, and running work would be left to its lease instead of being handed back.
        """
        not_due = time.monotonic() < self._sent_heartbeat_at + HEARTBEAT_SECONDS
        if not_due and timeout is None and pipeline is None and not self.stopping.is_set():
            return
        try:
            super().heartbeat(timeout, pipeline)
            self._sent_heartbeat_at = time.monotonic()
        except RedisError:
            if self.stopping.is_set():
                raise StopRequested from None
            raise

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for a free slot first, so that a delivery that leaves the queue is worked on at once."""
        while not self.stopping.is_set():
            if not self.slots.take(SLOT_WAIT_SECONDS):
                self.heartbeat()
                continue
            found = None
            try:
                self.is_waiting = True
                found = super().dequeue_job_and_maintain_ttl(self._dequeue_seconds, self._dequeue_seconds)
            except BaseException:
                found = None  # broken off: nobody works on what may have been found
                raise
            finally:
                self.is_waiting = False
                if found is None:
                    self.slots.give_back()
            if found is not None:
                return found
            if self.is_done():
                return None
        raise StopRequested

    def break_off_waiting(self) -> None:
        """Raise StopRequested in the wait for the next message, if there is one. Only for the thread that waits."""
        if self.is_waiting:
            self.is_waiting = False
            raise StopRequested

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run the delivery in a thread. Its slot was taken before it was dequeued."""
        try:
            if not is_delivery_job(job):
                self._discard(job, queue)
                self.slots.give_back()
                return
            execution = self.prepare_execution(job)
        except BaseException:
            self.slots.give_back()
            raise
        self.slots.run(lambda: self._perform(job, queue, execution))

    def _discard(self, job: Job, queue: Queue) -> None:
        """Delete the message: RQ would call any function that it names, so writers to Redis could run code here."""
        is_delivery = DELIVERY_ID.match(job.id)  # a newer release may name another function; the delivery stays owed
        log.warning("message.not_ours", message=job.id if is_delivery else "of a stranger")
        self.connection.lrem(queue.intermediate_queue_key, 1, job.id)
        job.delete()

    def _perform(self, job: Job, queue: Queue, execution: Execution) -> None:
        try:
            self.perform_job(job, queue, execution)
        except RedisError as error:
            # RQ could not write its record. The ledger has its own; a delivery that was not claimed is still owed.
            log.warning("delivery.unrecorded_by_rq", message=job.id, error=type(error).__name__)
