"""Tests that what a Redis answers is what is said about it, and that a ping alone is not enough."""

from __future__ import annotations

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tasks.queue import DeliveryQueue
from tasks.queue.redis_client import QueueUnreachable, connect, settings_hint
from tests.support import factories
from webapp.local.redis import Server


def queue_at(address: str) -> DeliveryQueue:
    settings = factories.settings({"DATABASE_URL": "postgresql://u@h/d", "REDIS_URL": address})
    return DeliveryQueue(settings, connect(settings, connections=1))


def hint(queue: DeliveryQueue) -> str:
    with pytest.raises(QueueUnreachable) as error:
        queue.require_usable()
    queue.connection.connection_pool.disconnect()
    return settings_hint(error.value)


@pytest.fixture
def master(own_redis: Server) -> Redis:
    with Redis.from_url(own_redis.address) as master:
        yield master


def test_a_check_leaves_nothing_behind(own_redis: Server, master: Redis) -> None:
    queue = queue_at(own_redis.address)
    queue.require_usable()
    assert master.dbsize() == 0
    queue.connection.connection_pool.disconnect()


def test_a_full_redis_is_called_full(own_redis: Server, master: Redis) -> None:
    master.config_set("maxmemory-policy", "noeviction")
    master.config_set("maxmemory", "1mb")
    assert queue_at(own_redis.address).connection.ping(), "a ping says nothing"
    assert hint(queue_at(own_redis.address)).startswith("Redis is full")


def test_a_replica_is_called_a_replica(own_redis: Server, master: Redis) -> None:
    master.replicaof("127.0.0.1", "1")
    assert "a replica" in hint(queue_at(own_redis.address))


def test_a_command_that_is_forbidden_is_called_forbidden(own_redis: Server, master: Redis) -> None:
    master.acl_setuser("few", enabled=True, passwords=["+secret"], keys=["*"], commands=["+ping", "+client", "+hello"])
    address = own_redis.address.replace("redis://", "redis://few:secret@").replace("few:secret@:", "few:secret@")
    address = f"redis://few:secret@127.0.0.1:{own_redis.port}/0"
    assert "may not use a command" in hint(queue_at(address))


@pytest.mark.parametrize("password", ["", ":wrong@"])
def test_a_missing_or_wrong_password_is_named(own_redis: Server, master: Redis, password: str) -> None:
    assert "password" in hint(queue_at(f"redis://{password}127.0.0.1:{own_redis.port}/0"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "full"),
        ("MISCONF Redis is configured to save RDB snapshots", "disk"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "Cluster"),
        ("MOVED 3999 127.0.0.1:6381", "Cluster"),
        ("LOADING Redis is loading the dataset in memory", "starting"),
        ("MASTERDOWN Link with MASTER is down", "primary"),
        ("NOPERM this user has no permissions to run the 'hset' command", "may not"),
        ("Connection refused.", "no answer"),
    ],
)
def test_each_refusal_has_its_words(answer: str, words: str) -> None:
    assert words in settings_hint(RedisError(answer))
