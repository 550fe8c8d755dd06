"""RQ's worker, with slots and without its own signals, timeouts and retries."""

from __future__ import annotations

import re
import threading
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

OUR_ID = re.compile(r"[0-9a-f]{32}-\d{1,9}\Z")

DEQUEUE_SECONDS = 1  # how long one look into the queue waits, and so how fast a stop is noticed


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
