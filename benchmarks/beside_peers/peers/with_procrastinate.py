"""Procrastinate, an async task; the queue is in PostgreSQL."""

from __future__ import annotations

import os

import durable_work
import procrastinate

is_web = os.environ.get("BENCH_ROLE") == "web"
connector = procrastinate.SyncPsycopgConnector if is_web else procrastinate.PsycopgConnector
app = procrastinate.App(
    connector=connector(conninfo=durable_work.DATABASE_URL, min_size=1, max_size=durable_work.CONNECTIONS)
)
work = durable_work.AsyncWork()


@app.task(queue="bench", name="job", retry=3)
async def job(job_id: str) -> None:
    await work(job_id)


if is_web:
    app.open()


def enqueue(job_id: str) -> None:
    job.defer(job_id=job_id)
