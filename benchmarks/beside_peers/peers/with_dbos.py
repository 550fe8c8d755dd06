"""python with_dbos.py tables|worker N: DBOS, one step in one workflow, in threads; the queue is in PostgreSQL."""

from __future__ import annotations

import sys
import threading
from functools import cache

import durable_work
from dbos import DBOS, DBOSClient, run_dbos_database_migrations

POLLED_EVERY_SECONDS = 0.05
making = threading.Lock()


@cache
def client() -> DBOSClient:
    return DBOSClient(system_database_url=durable_work.DATABASE_URL)


def enqueue(job_id: str) -> None:
    with making:
        ours = client()
    ours.enqueue({"queue_name": "bench", "workflow_name": "job", "workflow_id": job_id}, job_id)


def run(jobs_at_once: int) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": durable_work.DATABASE_URL,
            "run_admin_server": False,
            "sys_db_pool_size": durable_work.CONNECTIONS,
            "max_executor_threads": jobs_at_once + 8,
            "log_level": "WARNING",
        }
    )

    @DBOS.step(name="call")
    def call(job_id: str) -> None:
        durable_work.work(job_id)

    @DBOS.workflow(name="job")
    def job(job_id: str) -> None:
        call(job_id)

    durable_work.client()
    DBOS.launch()
    DBOS.register_queue(
        "bench",
        worker_concurrency=jobs_at_once,
        polling_interval_sec=POLLED_EVERY_SECONDS,
        on_conflict="always_update",
    )
    threading.Event().wait()


if __name__ == "__main__":
    given = int(sys.argv[2])
    if sys.argv[1] == "tables":
        run_dbos_database_migrations(system_database_url=durable_work.DATABASE_URL)
        client().register_queue("bench", worker_concurrency=given, polling_interval_sec=POLLED_EVERY_SECONDS)
    else:
        run(given)
