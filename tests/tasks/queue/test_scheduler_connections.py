"""The scheduler uses only its process's connections: docs/deploy.md promises a number, and plans limit it."""

from __future__ import annotations

import redis
from rq.scheduler import RQScheduler

from tasks.queue import DeliveryQueue
from tasks.queue.redis_client import connect
from tasks.settings import Settings
from webapp.local.redis import Server


def opened_by_a_step(own_redis: Server, settings: Settings, *, as_rq_makes_it: bool) -> int:
    """Return how many connections a step of the scheduler opens in addition to that of its process."""
    ours = connect(
        settings.model_copy(update={"redis_url": type(settings.redis_url)(own_redis.address)}), connections=1
    )
    queue = DeliveryQueue(settings, ours)
    with redis.Redis.from_url(own_redis.address) as watch:
        queue.require_usable()
        before = len(watch.client_list())
        scheduler = queue.scheduler()
        if as_rq_makes_it:
            scheduler._scheduler = RQScheduler([queue.rq], connection=ours, serializer="json")
        scheduler.step()
        opened = len(watch.client_list()) - before
    scheduler._scheduler.connection.connection_pool.disconnect()
    ours.connection_pool.disconnect()
    return opened


def test_the_scheduler_opens_no_connection_of_its_own(own_redis: Server, settings: Settings) -> None:
    assert opened_by_a_step(own_redis, settings, as_rq_makes_it=False) == 0


def test_control_the_scheduler_as_rq_makes_it_opens_one(own_redis: Server, settings: Settings) -> None:
    assert opened_by_a_step(own_redis, settings, as_rq_makes_it=True) == 1
