"""A queue in memory, with the methods of `tasks.queue.DeliveryQueue` that the dispatcher calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.queue import message_id
from tests.support import factories

Message = tuple[uuid.UUID, int]


@dataclass
class MemoryQueue:
    """Holds messages as (job, number). An id that was sent before is refused, as in RQ, until the queue is flushed."""

    name: str = factories.QUEUE
    messages: list[Message] = field(default_factory=list)
    later: list[Message] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    flushed: bool = False

    def send(self, job_id: uuid.UUID, number: int, *, wait_seconds: float) -> bool:
        """Add a message, or schedule it. Returns False if its id is known."""
        if message_id(job_id, number) in self.known:
            return False
        self.known.add(message_id(job_id, number))
        (self.later if wait_seconds > 0 else self.messages).append((job_id, number))
        return True

    def waiting(self, ids: Iterable[str]) -> set[str]:
        """Return those of these ids that are in the queue."""
        return set(ids) & {message_id(*message) for message in self.messages}

    def scheduled(self, ids: Iterable[str]) -> set[str]:
        """Return those of these ids that are scheduled."""
        return set(ids) & {message_id(*message) for message in self.later}

    def unschedule(self, identifier: str) -> None:
        """Forget a scheduled message."""
        self.later = [message for message in self.later if message_id(*message) != identifier]

    def was_flushed(self) -> bool:
        """Return True if the queue has lost everything since `mark_as_known`."""
        return self.flushed

    def mark_as_known(self) -> None:
        """Remember that the loss was noticed."""
        self.flushed = False

    def flush(self) -> None:
        """Lose everything."""
        self.messages, self.later, self.known, self.flushed = [], [], set(), True

    def let_scheduled_run(self) -> None:
        """Move the scheduled messages into the queue: their time has come."""
        self.messages, self.later = self.messages + self.later, []

    def copy(self) -> MemoryQueue:
        """Return a queue with the same messages."""
        return MemoryQueue(self.name, [*self.messages], [*self.later], {*self.known}, self.flushed)
