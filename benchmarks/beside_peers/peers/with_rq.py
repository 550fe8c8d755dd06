"""python with_rq.py fork|simple N: RQ, a pool of N workers. Everything is loaded before the first fork."""

from __future__ import annotations

import sys

import durable_work
import redis
import rq
from rq.worker_pool import WorkerPool

connection = redis.Redis.from_url(durable_work.REDIS_URL)
queue = rq.Queue("bench", connection=connection)


def enqueue(job_id: str) -> None:
    queue.enqueue("with_rq.job", job_id, retry=rq.Retry(max=3), job_timeout=1800, result_ttl=500)


def job(job_id: str) -> None:
    durable_work.work(job_id)


if __name__ == "__main__":
    kind, workers = {"fork": rq.worker.Worker, "simple": rq.worker.SimpleWorker}[sys.argv[1]], int(sys.argv[2])
    sys.modules["with_rq"] = sys.modules["__main__"]
    durable_work.warm_up()
    WorkerPool([queue], connection=connection, num_workers=workers, worker_class=kind).start(logging_level="WARNING")
