"""Connects to Redis, and explains its errors by the setting that causes them."""

from __future__ import annotations

from collections.abc import Mapping

from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.retry import Retry

from tasks.settings import Settings, SettingsWrong
from tasks.settings.connection_urls import redis_tls

QueueUnreachable = RedisError
"""Is raised by every method of the queue if Redis does not answer."""


def connect(settings: Settings, *, connections: int, answer_within_seconds: float | None = None) -> Redis:
    """Return a client whose pool holds at most `connections`; callers wait for a free connection, and open no more.

    `answer_within_seconds` limits connecting and each answer, for callers that prefer to go on without Redis.
    Raises SettingsWrong if REDIS_URL cannot be parsed, or has a parameter that the client does not know.
    """
    options = redis_tls(settings)
    if answer_within_seconds is not None:
        options["socket_timeout"] = answer_within_seconds
    try:
        pool = BlockingConnectionPool.from_url(
            settings.redis_url.get_secret_value(),
            max_connections=connections,
            timeout=10 if answer_within_seconds is None else answer_within_seconds,
            socket_connect_timeout=2 if answer_within_seconds is None else answer_within_seconds,
            socket_keepalive=True,
            health_check_interval=30,
            retry=Retry(NoBackoff(), 1),  # once: hosts close idle connections, which is no error
            **options,
        )
        pool.connection_class(**pool.connection_kwargs)  # refuses unknown parameters, and does not connect yet
    except (TypeError, ValueError):
        raise SettingsWrong([UNREADABLE]) from None
    return Redis(connection_pool=pool)


def settings_hint(error: Exception) -> str:
    """Return a hint: the setting that probably causes this error, and how to fix it. Names settings, never values."""
    message = str(error)
    refusal = REFUSALS.get(message.partition(" ")[0]) or REFUSALS.get(WORDS.get(type(error), ""))
    if refusal is not None:
        return refusal
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return "REDIS_CA_FILE: the certificate is not trusted. Name who vouches for it, or set REDIS_TLS_VERIFY=0"
    if "[SSL" in message:
        return "REDIS_URL starts with rediss://, and the server does not speak TLS there"
    if "max number of clients" in message:
        return "the plan's limit on connections to Redis is reached. Run fewer processes, or take a larger plan"
    if isinstance(error, AuthenticationError):
        return "REDIS_URL: its user name or password is refused"
    if "closed by server" in message or "reset by peer" in message:
        return "REDIS_URL: the server hangs up. Where it speaks TLS, the address starts with rediss://"
    return "REDIS_URL: no answer. Check the address, that the server runs, and whether it speaks TLS (rediss://) or not"


REFUSALS = {
    "OOM": "Redis is full: it takes no messages until there is room. Look at what else it keeps, or take a larger plan",
    "READONLY": "REDIS_URL names a replica, which takes no messages. Name the primary",
    "MISCONF": "Redis cannot save its data to disk, and refuses to write. Check the disk of its host",
    "NOPERM": "The Redis user in REDIS_URL may not use a command or a key that is needed: see docs/deploy.md",
    "NOAUTH": "REDIS_URL: Redis asks for a password, and the address has none",
    "WRONGPASS": "REDIS_URL: its user name or password is refused",
    "CROSSSLOT": "REDIS_URL names a Redis Cluster, which RQ cannot use. Take a Redis without cluster mode",
    "MOVED": "REDIS_URL names a Redis Cluster, which RQ cannot use. Take a Redis without cluster mode",
    "CLUSTERDOWN": "REDIS_URL names a Redis Cluster, which RQ cannot use. Take a Redis without cluster mode",
    "LOADING": "Redis is starting, and loads its data",
    "BUSY": "Redis is busy with a script of somebody else's",
    "MASTERDOWN": "Redis is a replica that has lost its primary. Name the primary, or wait until it is back",
}
"""Maps the word with which an answer of Redis begins to what it means."""
WORDS: Mapping[type[Exception], str] = {
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    NoPermissionError: "NOPERM",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    ClusterCrossSlotError: "CROSSSLOT",
    MovedError: "MOVED",
    ClusterDownError: "CLUSTERDOWN",
}
"""Maps errors of redis-py, which takes the word away, to that word."""

UNREADABLE = (
    "REDIS_URL cannot be read: its port or database is no number, or the client does not know a parameter after the ?. "
    "Remove what stands after the ?."
)
