"""Sends owed deliveries to the queue. Any number of dispatchers may run, anywhere, and be killed at any line.

A delivery is postponed before it is sent and stays owed until a claim consumes it. So a crash here causes at most one
extra message, and the claim refuses an extra message.
"""

from __future__ import annotations

import threading
import uuid

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Transaction
from tasks.fault_points import fault_point
from tasks.ledger.delivery import outbox
from tasks.ledger.delivery.outbox import OwedDelivery
from tasks.queue import DeliveryQueue, message_id
from tasks.queue.redis_client import QueueUnreachable, settings_hint

log = structlog.get_logger()

BATCH = 100
POSTPONE_SECONDS = 5.0
POLL_SECONDS = 1.0
WOKEN_POLL_SECONDS = 30.0  # where something else wakes the loop


class Dispatcher:
    """Moves deliveries from the outbox to the queue."""

    def __init__(self, transaction: Transaction, queue: DeliveryQueue, poll_seconds: float = POLL_SECONDS) -> None:
        self._transaction = transaction
        self._poll_seconds = poll_seconds
        self._queue = queue
        self._wake = threading.Event()

    def dispatch_now(self, job_id: uuid.UUID) -> bool:
        """Send this job's delivery right after its commit. Return False if it is left to the loop; nothing is lost."""
        try:
            return self.step(job_id) > 0
        except (QueueUnreachable, SQLAlchemyError) as error:
            log.warning("dispatch.left_to_the_loop", job=job_id.hex, **_error_fields(error))
            return False

    def step(self, job_id: uuid.UUID | None = None) -> int:
        """Send the deliveries that are due, at most a batch, or only that of one job. Return how many were handled.

        Raises QueueUnreachable before anything is postponed if Redis does not answer.
        """
        if self._queue.was_flushed():
            with self._transaction() as session:
                forgotten = outbox.bring_all_forward(session, self._queue.name)
            self._queue.mark_as_known()
            if forgotten:
                log.warning("queue.forgot", deliveries=forgotten)
        with self._transaction() as session:
            due = outbox.take_due(
                session, queue=self._queue.name, limit=BATCH, postpone_seconds=POSTPONE_SECONDS, job_id=job_id
            )
        if not due:
            return 0
        fault_point("dispatcher.taken")
        sent_before = [message_id(owed.job_id, owed.earlier) for owed in due if owed.earlier is not None]
        waiting, scheduled = self._queue.waiting(sent_before), self._queue.scheduled(sent_before)
        for owed in due:
            self._send_unless_queued(owed, waiting, scheduled)
        return len(due)

    def _send_unless_queued(self, owed: OwedDelivery, waiting: set[str], scheduled: set[str]) -> None:
        number: int | None = owed.number
        if owed.earlier is not None:
            earlier = message_id(owed.job_id, owed.earlier)
            if earlier in waiting or (earlier in scheduled and owed.seconds_to_wait > 0):
                return  # the first message still waits in a backlog: send no second copy
            number = self._renumber(owed)
            if earlier in scheduled:
                self._queue.unschedule(earlier)  # it is due now; RQ would queue it up to 0.8 s early or late
        if number is not None and not self._send(owed, number) and not self._still_there(owed, number):
            # A dispatcher sent this number and died before it noted it, and the message was lost as well.
            number = self._renumber(owed)
            if number is not None:
                self._send(owed, number)

    def _renumber(self, owed: OwedDelivery) -> int | None:
        """Return a new number for a message that is gone; None if the job was claimed meanwhile, so nothing is owed."""
        with self._transaction() as session:
            return outbox.renumber(session, owed.job_id, owed.number)

    def _send(self, owed: OwedDelivery, number: int) -> bool:
        sent = self._queue.send(owed.job_id, number, wait_seconds=owed.seconds_to_wait)
        fault_point("dispatcher.sent")
        with self._transaction() as session:
            outbox.note_dispatched(session, owed.job_id, number)
        fault_point("dispatcher.noted")
        log.info("delivery.dispatched", job=owed.job_id.hex, delivery=number, wait_seconds=owed.seconds_to_wait)
        return sent

    def _still_there(self, owed: OwedDelivery, number: int) -> bool:
        identifier = message_id(owed.job_id, number)
        return bool(self._queue.waiting([identifier]) or self._queue.scheduled([identifier]))

    def wake(self) -> None:
        """Make the loop look at once, since a delivery has just become owed."""
        self._wake.set()

    def run(self, stopping: threading.Event) -> None:
        """Step until `stopping` is set, and wake exactly when the next delivery is due."""
        while not stopping.is_set():
            pause = POLL_SECONDS
            try:
                if self.step() < BATCH:
                    with self._transaction() as session:
                        until_due = outbox.seconds_until_next_due(session, self._queue.name)
                    pause = self._poll_seconds if until_due is None else min(self._poll_seconds, max(0.02, until_due))
                else:
                    pause = 0.0
            except (QueueUnreachable, SQLAlchemyError) as error:
                log.warning("dispatcher.waits", **_error_fields(error))
            self._wake.wait(pause)
            self._wake.clear()


def _error_fields(error: Exception) -> dict[str, str]:
    """Return the log fields of an error: its type and the setting to look at, never an address."""
    hint = settings_hint(error) if isinstance(error, QueueUnreachable) else "DATABASE_URL"
    return {"error": type(error).__name__, "look_at": hint}
