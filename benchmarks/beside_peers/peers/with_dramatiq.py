"""Dramatiq, one process with threads."""

from __future__ import annotations

import dramatiq
import durable_work
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=durable_work.REDIS_URL, max_connections=2000))


@dramatiq.actor(queue_name="bench", max_retries=3, time_limit=1_800_000)
def job(job_id: str) -> None:
    durable_work.work(job_id)


def enqueue(job_id: str) -> None:
    job.send(job_id)
