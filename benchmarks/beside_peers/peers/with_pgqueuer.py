"""python with_pgqueuer.py N: pgqueuer, an async entry point, batches of 10; the queue is in PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any

import durable_work
import psycopg

own = threading.local()


def enqueue(job_id: str) -> None:
    """Enqueue over a connection of the thread's own."""
    if not hasattr(own, "queries"):
        from pgqueuer.db import SyncPsycopgDriver
        from pgqueuer.queries import SyncQueries

        own.queries = SyncQueries(SyncPsycopgDriver(psycopg.connect(durable_work.DATABASE_URL, autocommit=True)))
    own.queries.enqueue("job", job_id.encode())


async def run(jobs_at_once: int) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    work = durable_work.AsyncWork()
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(durable_work.DATABASE_URL)))

    @queuer.entrypoint("job")
    async def job(found: Any) -> None:
        await work(found.payload.decode())

    await queuer.run(dequeue_timeout=timedelta(seconds=5), batch_size=10, max_concurrent_tasks=max(20, jobs_at_once))


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
