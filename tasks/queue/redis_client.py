"""The connections to Redis, and what its errors mean for the settings."""

from __future__ import annotations

from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from tasks.settings import Settings, SettingsWrong
from tasks.settings.connection_urls import redis_tls

QueueUnreachable = RedisError
"""What every method here raises when Redis does not answer."""


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


def settings_hint(error: Exception) -> str:
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


UNREADABLE = (
    "REDIS_URL cannot be read: its port or database is no number, or the client does not know a parameter after the ?. "
    "Remove what stands after the ?."
)
