"""One worker with 200 calls in flight needs only a few connections."""

from __future__ import annotations

import uuid

import psycopg
import pytest
import redis

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import answers, asking, process, worker
from webapp.local.ports import free_port

JOBS = 200
ALLOWED = 12
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND NOT pid = ANY(%s)"""


@pytest.mark.thorough
@pytest.mark.timeout(150)
def test_two_hundred_slow_answers_are_waited_for_at_once_over_few_connections(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        for n in range(JOBS):
            factories.submit(session, account_id, f"Report number {n}. Nothing happened that day.".encode())
    database.engine.dispose()
    queue.connection.connection_pool.disconnect()
    port = str(free_port())
    with FakeProvider() as fake, psycopg.connect(addresses["DATABASE_URL"], autocommit=True) as watch:
        fake.script([{"mode": "gate"}])  # no answer comes before all have sent their request
        provider = asking(fake, PROVIDER_CONCURRENCY=JOBS)
        web = process(
            ["-m", "gunicorn", "wsgi:app"], factories.environment(addresses, HOST="127.0.0.1", PORT=port, **provider)
        )
        # Connections of this test process, from earlier tests too, do not belong to the site.
        with redis.Redis.from_url(addresses["REDIS_URL"]) as r:
            ours = {client["id"] for client in r.client_list()}
        pids = [pid for (pid,) in watch.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        with web, redis.Redis.from_url(addresses["REDIS_URL"]) as r:
            address = f"http://127.0.0.1:{port}"
            factories.wait_until(lambda: answers(f"{address}/healthz"), within=30)
            for _ in range(3):  # so that the web process opens all the connections that it ever needs
                factories.all_at_once([lambda: answers(f"{address}/readyz")] * 4)
            in_redis = in_postgresql = 0

            def all_in_flight() -> bool:
                nonlocal in_redis, in_postgresql
                in_redis = max(in_redis, len({client["id"] for client in r.client_list()} - ours) - 1)
                found = watch.execute(CONNECTIONS, [pids]).fetchone()
                in_postgresql = max(in_postgresql, found[0] if found else 0)
                return fake.in_flight >= JOBS

            def all_saved() -> bool:
                all_in_flight()
                return watch.execute("SELECT count(*) FROM results").fetchone() == (JOBS,)

            with worker(addresses, slots=JOBS, **provider) as crowd:
                factories.wait_until(all_in_flight, within=50, what=lambda: crowd.log[-2000:])
                fake.release()
                factories.wait_until(all_saved, within=60, every=0.1)
        assert len(fake.requests) == JOBS
    assert in_redis <= ALLOWED
    assert in_postgresql <= ALLOWED
    with database.transaction() as session:
        assert job_views.orphans(session, grace_seconds=0) == 0
