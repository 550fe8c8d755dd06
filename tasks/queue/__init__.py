"""The queue in RQ and Redis. Messages only wake workers and carry ids, so Redis may lose all of them.

Only this package and `tasks.worker` import rq or redis.
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
CHECK_LASTS_SECONDS = 60


NoSuchMessage = NoSuchJobError
"""Is raised by RQ for a message that it does not know, or does not know any more."""


def read_messages_as_json() -> None:
    """Make JSON the format that RQ reads by default. Otherwise it would unpickle anything that it finds in Redis."""
    serializers.PickleSerializer = serializers.JSONSerializer  # type: ignore[assignment]


def message_id(job_id: uuid.UUID, number: int) -> str:
    """Return RQ's id of a delivery. Each number is used once, since RQ refuses an id for as long as it remembers it."""
    return f"{job_id.hex}-{number}"


class DeliveryQueue:
    """Puts deliveries into RQ and finds them there: one queue, JSON only, ids only."""

    def __init__(self, settings: Settings, connection: Redis) -> None:
        self.name = settings.queue_name
        self.connection = connection
        self.rq = Queue(settings.queue_name, connection=connection, serializer="json")
        self._scheduled = ScheduledJobRegistry(queue=self.rq)
        self._job_timeout = settings.job_timeout_seconds
        self._epoch_key = f"waybill:epoch:{settings.queue_name}"

    def send(self, job_id: uuid.UUID, number: int, *, wait_seconds: float) -> bool:
        """Send a delivery, to run at once or after a wait. Return False if the queue already knew this number.

        A delivery that waits is in RQ's scheduled registry, where it can be seen. RQ works in whole seconds and may
        start it almost a second early, so the claim checks the time again.
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
        """Return those of these messages that are in the queue and can be delivered: listed, and not evicted."""
        requested = set(ids)
        if not requested:
            return set()
        listed = requested & set(self.rq.get_job_ids())
        return {found for found in listed if Job.exists(found, connection=self.connection)}

    def scheduled(self, ids: Iterable[str]) -> set[str]:
        """Return those of these messages that wait in the scheduled registry for their time."""
        requested = set(ids)
        return requested & set(self._scheduled.get_job_ids(cleanup=False)) if requested else set()

    def unschedule(self, identifier: str) -> None:
        """Remove a message from the scheduled registry, since another message delivers the job."""
        self._scheduled.remove(identifier, delete_job=True)

    def was_flushed(self) -> bool:
        """Return True if Redis has lost its data since `mark_as_known`: it was flushed, or restarted empty."""
        return not self.connection.exists(self._epoch_key)

    def mark_as_known(self) -> None:
        """Store a mark in Redis that is lost with its data. Call this only after the lost deliveries are owed again."""
        self.connection.set(self._epoch_key, "1")

    def require_usable(self) -> None:
        """Write, read and remove what a message is made of, under a name of its own. Raises QueueUnreachable.

        A Redis that is full, a replica, or forbids a command still answers a ping.
        """
        name = f"waybill:check:{self.name}:{uuid.uuid4().hex}"
        entry, listed, sorted_by_time = f"{name}:hash", f"{name}:list", f"{name}:zset"
        with self.connection.pipeline(transaction=True) as pipeline:
            pipeline.hset(entry, mapping={"id": "1"})
            pipeline.expire(entry, CHECK_LASTS_SECONDS)
            pipeline.rpush(listed, "1")
            pipeline.expire(listed, CHECK_LASTS_SECONDS)
            pipeline.zadd(sorted_by_time, {"1": 1})
            pipeline.expire(sorted_by_time, CHECK_LASTS_SECONDS)
            pipeline.hgetall(entry)
            pipeline.delete(entry, listed, sorted_by_time)
            pipeline.execute()

    def server(self) -> ServerFacts:
        """Return what the server reports about itself. Raises QueueUnreachable."""
        asked_at = time.time()
        seconds, microseconds = self.connection.time()
        answered_at = time.time()
        info = self.connection.info()
        writes = (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status"))
        max_clients = info.get("maxclients") or self._config("maxclients")
        return ServerFacts(
            version=str(info["redis_version"]),
            policy=str(info.get("maxmemory_policy") or self._config("maxmemory-policy") or "unknown"),
            is_replica=info.get("role") == "slave",
            append_only=bool(info.get("aof_enabled")),
            snapshots=self._config("save"),
            writing_failed="err" in writes,
            used_bytes=int(info.get("used_memory", 0)),
            limit_bytes=int(info.get("maxmemory", 0)) or None,
            is_cluster=info.get("redis_mode") == "cluster" or bool(info.get("cluster_enabled")),
            clients=int(info.get("connected_clients", 0)),
            most_clients=int(max_clients) if max_clients else None,
            ahead_seconds=seconds + microseconds / 1e6 - (asked_at + answered_at) / 2,
            unsure_seconds=(answered_at - asked_at) / 2,
        )

    def _config(self, name: str) -> str | None:
        """Return a setting of the server; None if the host forbids CONFIG GET."""
        try:
            value = self.connection.config_get(name).get(name)
        except ResponseError:
            return None
        return None if value is None else str(value)

    def depth(self) -> int:
        """Return how many messages wait for a slot."""
        return self.rq.count

    def delete_all_keys(self, jobs: Iterable[uuid.UUID]) -> None:
        """Delete every key of this queue and of the messages to these jobs, and no others, as if Redis had lost them.

        For drills, which have their own queue. A worker that still runs writes some of its keys again.
        """
        job_ids = {job_id.hex for job_id in jobs}
        workers = get_keys(queue=self.rq)
        to_delete = {self._epoch_key}
        scheduler = self.connection.get(RQScheduler.get_locking_key(self.name))
        if isinstance(scheduler, bytes):
            to_delete.add(f"{RQ_KEY_PREFIX}:scheduler:{scheduler.decode()}")
        for found in self.connection.scan_iter(match=f"{RQ_KEY_PREFIX}:*", count=1000):
            key = found.decode()
            parts = key.split(":")
            if self.name in parts or any(part.partition("-")[0] in job_ids for part in parts):
                to_delete.add(key)
                if parts[-2] == "job":
                    workers |= self._worker_of(key)
            elif parts[-2] in ("worker", "scheduler") and self.connection.hget(key, "queues") == self.name.encode():
                to_delete.add(key)
        to_delete |= {*workers, *(f"{worker}:executions" for worker in workers)}
        with self.connection.pipeline() as pipeline:
            pipeline.srem(f"{RQ_KEY_PREFIX}:queues", self.rq.key)
            for worker in workers:
                pipeline.srem(f"{RQ_KEY_PREFIX}:workers", worker)
            pipeline.delete(*to_delete)
            pipeline.execute()

    def _worker_of(self, message_key: str) -> set[str]:
        """Return the key of the worker that took a message. A worker outlives its entry in the lists of workers."""
        name = self.connection.hget(message_key, "worker_name")
        return {f"{RQ_KEY_PREFIX}:worker:{name.decode()}"} if isinstance(name, bytes) and name else set()

    def scheduler(self) -> ScheduledDeliveries:
        """Return RQ's scheduler for this queue, which the caller runs step by step."""
        return ScheduledDeliveries(self.rq, self.connection)
