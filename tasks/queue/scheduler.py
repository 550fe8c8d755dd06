"""RQ's scheduler, run step by step over the connections of the process."""

from __future__ import annotations

from redis import Redis
from rq import Queue
from rq.scheduler import RQScheduler


class SchedulerOnOurConnections(RQScheduler):
    """Runs RQ's scheduler on the process's own pool. By default it opens a second one, and hosts' plans count both."""

    def __init__(self, queue: Queue, connection: Redis) -> None:
        self._process_connection = connection
        super().__init__([queue], connection=connection, serializer="json", interval=1)

    @property
    def connection(self) -> Redis:
        """Return the client that was passed in."""
        return self._process_connection


class ScheduledDeliveries:
    """Runs RQ's scheduler in a thread of the worker instead of a separate process.

    RQ forks it. A fork of a process with threads and database connections is unsafe, and takes 60 MB of a small plan.
    """

    def __init__(self, queue: Queue, connection: Redis) -> None:
        self._scheduler = SchedulerOnOurConnections(queue, connection)
        self._is_registered = False

    def step(self) -> None:
        """Move the messages that are due into the queue. RQ's lock lets only one scheduler do this for each queue."""
        if not self._is_registered:
            self._scheduler.register_birth()
            self._is_registered = True
        if self._scheduler.should_reacquire_locks:
            self._scheduler.acquire_locks()
        self._scheduler.heartbeat()
        self._scheduler.enqueue_scheduled_jobs()

    def stop(self) -> None:
        """Let another worker's scheduler take over at once."""
        if self._is_registered:
            self._scheduler.stop()
