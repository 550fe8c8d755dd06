"""Celery, a pool of threads; a message is acknowledged after its job."""

from __future__ import annotations

import durable_work
from celery import Celery

app = Celery("with_celery", broker=durable_work.REDIS_URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    task_default_queue="bench",
    broker_transport_options={"visibility_timeout": 3600},
)


@app.task(name="job")
def job(job_id: str) -> None:
    durable_work.work(job_id)


def enqueue(job_id: str) -> None:
    job.delay(job_id)
