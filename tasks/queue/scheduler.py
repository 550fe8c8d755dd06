"""RQ's scheduler, run step by step over the connections that the process has."""

from __future__ import annotations

from redis import Redis
from rq import Queue
from rq.scheduler import RQScheduler


class SchedulerOnOurConnections(RQScheduler):
    """RQ's scheduler over the pool that the process has. By itself it opens another one, and a plan counts both."""

    def __init__(self, queue: Queue, connection: Redis) -> None:
        self._ours = connection
        super().__init__([queue], connection=connection, serializer="json", interval=1)

    @property
    def connection(self) -> Redis:
        """Return the client that was handed in."""
        return self._ours


class ScheduledDeliveries:
    """RQ's own scheduler, run in a thread of the worker instead of a process of its own.

    RQ forks it; a fork of a process with threads and database connections is unsafe, and costs a small plan 60 MB.
    """

    def __init__(self, queue: Queue, connection: Redis) -> None:
        self._scheduler = SchedulerOnOurConnections(queue, connection)
        self._born = False

    def step(self) -> None:
        """Move the messages whose time has come into the queue. One scheduler a queue does it; the lock is RQ's."""
        if not self._born:
            self._scheduler.register_birth()
            self._born = True
        if self._scheduler.should_reacquire_locks:
            self._scheduler.acquire_locks()
        self._scheduler.heartbeat()
        self._scheduler.enqueue_scheduled_jobs()

    def stop(self) -> None:
        """Let another worker's scheduler take over at once."""
        if self._born:
            self._scheduler.stop()
