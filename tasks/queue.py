"""The way to RQ and Redis. Messages are wake-ups and carry ids; Redis may forget them all.

With `tasks.worker`, the only module that imports rq or redis.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.retry import Retry
from rq import Queue, serializers
from rq.defaults import RQ_KEY_PREFIX
from rq.exceptions import DuplicateJobError, NoSuchJobError
from rq.job import Job
from rq.registry import ScheduledJobRegistry
from rq.scheduler import RQScheduler
from rq.worker_registration import get_keys

from tasks.addresses import redis_tls
from tasks.settings import Settings, SettingsWrong

MESSAGE_VERSION = 1
DELIVER = "tasks.worker.deliver"
RESULT_TTL_SECONDS = 3600
FAILURE_TTL_SECONDS = 7 * 24 * 3600
WORKER_CONNECTIONS = 5
UNREADABLE = (
    "REDIS_URL cannot be read: its port or database is no number, or the client does not know a parameter after the ?. "
    "Remove what stands after the ?."
)

QueueUnreachable = RedisError
"""What every method here raises when Redis does not answer."""

NoSuchMessage = NoSuchJobError
"""What RQ raises when asked for a message that it does not know (any more)."""


def read_messages_as_json() -> None:
    """Let RQ read JSON wherever nobody said which format: by itself it would unpickle whatever lies in Redis."""
    serializers.PickleSerializer = serializers.JSONSerializer  # type: ignore[assignment]


def connect(settings: Settings, *, connections: int, answer_within_seconds: float | None = None) -> Redis:
    """A client whose pool holds at most `connections`; callers wait for a free one instead of opening more.

    `answer_within_seconds` bounds connecting and each answer, for callers that would rather go on without Redis.
    Raises SettingsWrong if REDIS_URL cannot be read, or has a parameter that the client does not know.
    """
    more = redis_tls(settings)
    if answer_within_seconds is not None:
        more["socket_timeout"] = answer_within_seconds
    try:
        pool = BlockingConnectionPool.from_url(
            settings.redis_url.get_secret_value(),
            max_connections=connections,
            timeout=10 if answer_within_seconds is None else answer_within_seconds,
            socket_connect_timeout=2 if answer_within_seconds is None else answer_within_seconds,
            socket_keepalive=True,
            health_check_interval=30,
            retry=Retry(NoBackoff(), 1),  # once: a connection that the host closed while idle is not a fault
            **more,
        )
        pool.connection_class(**pool.connection_kwargs)  # refuses what it does not know, and does not connect yet
    except (TypeError, ValueError):
        raise SettingsWrong([UNREADABLE]) from None
    return Redis(connection_pool=pool)


def look_at(error: Exception) -> str:
    """Which setting to look at when Redis does not answer, and what to do. Names settings, never their values."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return "REDIS_CA_FILE: the certificate is not trusted. Name who vouches for it, or set REDIS_TLS_VERIFY=0"
    if "[SSL" in said:
        return "REDIS_URL starts with rediss://, and the server does not speak TLS there"
    if "max number of clients" in said:
        return "the plan's limit on connections to Redis is reached. Run fewer processes, or take a larger plan"
    if isinstance(error, AuthenticationError):
        return "REDIS_URL: its user name or password is refused"
    if "closed by server" in said or "reset by peer" in said:
        return "REDIS_URL: the server hangs up. Where it speaks TLS, the address starts with rediss://"
    return "REDIS_URL: no answer. Check the address, that the server runs, and whether it speaks TLS (rediss://) or not"


def message_id(job_id: uuid.UUID, number: int) -> str:
    """RQ's id of a delivery. Each number is used once: RQ refuses an id for as long as it remembers it."""
    return f"{job_id.hex}-{number}"


@dataclass(frozen=True)
class ServerFacts:
    """What a Redis server says about itself. None: it does not say, or there is no limit.

    `snapshots` is its rule for saving, empty for never. `ahead_seconds` is its clock against ours, right to within
    `unsure_seconds`.
    """

    version: str
    policy: str
    is_replica: bool
    append_only: bool
    snapshots: str | None
    writing_failed: bool
    used_bytes: int
    limit_bytes: int | None
    clients: int
    most_clients: int | None
    ahead_seconds: float
    unsure_seconds: float


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
