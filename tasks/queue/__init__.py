"""The way to RQ and Redis. Messages are wake-ups and carry ids; Redis may forget them all.

With `tasks.worker`, the only module that imports rq or redis.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from redis import Redis
from redis.exceptions import ResponseError
from rq import Queue, serializers
from rq.defaults import RQ_KEY_PREFIX
from rq.exceptions import DuplicateJobError, NoSuchJobError
from rq.job import Job
from rq.registry import ScheduledJobRegistry
from rq.scheduler import RQScheduler
from rq.worker_registration import get_keys

from tasks.queue.scheduler import ScheduledDeliveries
from tasks.queue.server_facts import ServerFacts
from tasks.settings import Settings

MESSAGE_VERSION = 1
DELIVER = "tasks.worker.deliver"
RESULT_TTL_SECONDS = 3600
FAILURE_TTL_SECONDS = 7 * 24 * 3600
WORKER_CONNECTIONS = 5


NoSuchMessage = NoSuchJobError
"""What RQ raises when asked for a message that it does not know (any more)."""


def read_messages_as_json() -> None:
    """Let RQ read JSON wherever nobody said which format: by itself it would unpickle whatever lies in Redis."""
    serializers.PickleSerializer = serializers.JSONSerializer  # type: ignore[assignment]


def message_id(job_id: uuid.UUID, number: int) -> str:
    """RQ's id of a delivery. Each number is used once: RQ refuses an id for as long as it remembers it."""
    return f"{job_id.hex}-{number}"


class DeliveryQueue:
    """Deliveries in RQ: one queue, JSON only, ids only."""

    def __init__(self, settings: Settings, connection: Redis) -> None:
        self.name = settings.queue_name
        self.connection = connection
        self.rq = Queue(settings.queue_name, connection=connection, serializer="json")
        self._scheduled = ScheduledJobRegistry(queue=self.rq)
        self._job_timeout = settings.job_timeout_seconds
        self._epoch_key = f"waybill:epoch:{settings.queue_name}"

    def send(self, job_id: uuid.UUID, number: int, *, wait_seconds: float) -> bool:
        """Hand a delivery over, to run at once or after a wait. False if the queue knew this number already.

        The wait is put in RQ's scheduled registry, where it can be seen. RQ works in whole seconds and may start
        it most of a second early, so the claim checks the time again.
        """
        arguments = {
            "kwargs": {"v": MESSAGE_VERSION, "job": job_id.hex, "delivery": number},
            "job_id": message_id(job_id, number),
            "description": message_id(job_id, number),
            "job_timeout": self._job_timeout,
            "result_ttl": RESULT_TTL_SECONDS,
            "failure_ttl": FAILURE_TTL_SECONDS,
            "unique": True,
        }
        try:
            if wait_seconds > 0:
                self.rq.enqueue_at(datetime.now(UTC) + timedelta(seconds=wait_seconds), DELIVER, **arguments)
            else:
                self.rq.enqueue(DELIVER, **arguments)
        except DuplicateJobError:
            return False
        return True

    def waiting(self, ids: Iterable[str]) -> set[str]:
        """Which of these messages are in the queue and would still be delivered: listed, and not evicted."""
        wanted = set(ids)
        if not wanted:
            return set()
        listed = wanted & set(self.rq.get_job_ids())
        return {found for found in listed if Job.exists(found, connection=self.connection)}

    def scheduled(self, ids: Iterable[str]) -> set[str]:
        """Which of these messages wait in the scheduled registry for their time."""
        wanted = set(ids)
        return wanted & set(self._scheduled.get_job_ids(cleanup=False)) if wanted else set()

    def unschedule(self, identifier: str) -> None:
        """Take a message out of the scheduled registry, since another one delivers it."""
        self._scheduled.remove(identifier, delete_job=True)

    def has_forgotten(self) -> bool:
        """Whether Redis lost its memory since `remember`: flushed, or restarted empty."""
        return not self.connection.exists(self._epoch_key)

    def remember(self) -> None:
        """Put a mark into Redis that is gone when its memory is. Only after what was lost is owed again."""
        self.connection.set(self._epoch_key, "1")

    def ping(self) -> None:
        """Raises QueueUnreachable when Redis does not answer."""
        self.connection.ping()

    def server(self) -> ServerFacts:
        """What the server says about itself. Raises QueueUnreachable."""
        asked_at = time.time()
        seconds, microseconds = self.connection.time()
        answered_at = time.time()
        info = self.connection.info()
        writes = (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status"))
        largest = info.get("maxclients") or self._config("maxclients")
        return ServerFacts(
            version=str(info["redis_version"]),
            policy=str(info.get("maxmemory_policy") or self._config("maxmemory-policy") or "unknown"),
            is_replica=info.get("role") == "slave",
            append_only=bool(info.get("aof_enabled")),
            snapshots=self._config("save"),
            writing_failed="err" in writes,
            used_bytes=int(info.get("used_memory", 0)),
            limit_bytes=int(info.get("maxmemory", 0)) or None,
            clients=int(info.get("connected_clients", 0)),
            most_clients=int(largest) if largest else None,
            ahead_seconds=seconds + microseconds / 1e6 - (asked_at + answered_at) / 2,
            unsure_seconds=(answered_at - asked_at) / 2,
        )

    def _config(self, name: str) -> str | None:
        """A setting of the server; None where hosts forbid to ask."""
        try:
            value = self.connection.config_get(name).get(name)
        except ResponseError:
            return None
        return None if value is None else str(value)

    def depth(self) -> int:
        """How many messages wait for a slot."""
        return self.rq.count

    def forget_everything(self, jobs: Iterable[uuid.UUID]) -> None:
        """Delete every key of this queue and of the messages to these jobs, and no other: as if Redis had lost them.

        For drills, on a queue of their own. A worker that still runs writes some of its keys anew.
        """
        ours = {job_id.hex for job_id in jobs}
        workers = get_keys(queue=self.rq)
        doomed = {self._epoch_key}
        scheduler = self.connection.get(RQScheduler.get_locking_key(self.name))
        if isinstance(scheduler, bytes):
            doomed.add(f"{RQ_KEY_PREFIX}:scheduler:{scheduler.decode()}")
        for found in self.connection.scan_iter(match=f"{RQ_KEY_PREFIX}:*", count=1000):
            key = found.decode()
            parts = key.split(":")
            if self.name in parts or any(part.partition("-")[0] in ours for part in parts):
                doomed.add(key)
                if parts[-2] == "job":
                    workers |= self._worker_of(key)
            elif parts[-2] in ("worker", "scheduler") and self.connection.hget(key, "queues") == self.name.encode():
                doomed.add(key)
        doomed |= {*workers, *(f"{worker}:executions" for worker in workers)}
        with self.connection.pipeline() as pipeline:
            pipeline.srem(f"{RQ_KEY_PREFIX}:queues", self.rq.key)
            for worker in workers:
                pipeline.srem(f"{RQ_KEY_PREFIX}:workers", worker)
            pipeline.delete(*doomed)
            pipeline.execute()

    def _worker_of(self, message_key: str) -> set[str]:
        """The key of the worker that a message was given to. A worker outlives its entry in the lists of workers."""
        name = self.connection.hget(message_key, "worker_name")
        return {f"{RQ_KEY_PREFIX}:worker:{name.decode()}"} if isinstance(name, bytes) and name else set()

    def scheduler(self) -> ScheduledDeliveries:
        """RQ's scheduler for this queue, to be run step by step."""
        return ScheduledDeliveries(self.rq, self.connection)
