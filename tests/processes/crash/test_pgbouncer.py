"""PostgreSQL behind PgBouncer in transaction mode, over TLS: any client may get a connection after a transaction."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest
from sqlalchemy.engine import make_url

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.ledger.schema import MIGRATIONS
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import answers, asking, process, worker
from tests.support.services import pgbouncer_and_tls
from tests.support.site import SHORT, Site
from webapp.auth import api_tokens
from webapp.local.ports import free_port


@pytest.fixture
def pooled(addresses: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the addresses of the services, with an empty database behind the pooler, and its direct URL."""
    with factories.own_database(addresses["DATABASE_URL"]) as direct, pgbouncer_and_tls.pgbouncer(direct) as address:
        yield {**addresses, "DATABASE_URL": address, "DIRECT_DATABASE_URL": direct}


def two_releases_at_once(pooled: dict[str, str]) -> None:
    """Run the migrations through the pooler and past it at the same time; each run would create every table."""
    through = {name: value for name, value in pooled.items() if name != "DIRECT_DATABASE_URL"}
    upgrade = [sys.executable, "-m", "flask", "--app", "wsgi", "db", "upgrade"]
    releases = [
        subprocess.Popen(upgrade, cwd=factories.ROOT, env=factories.environment(of), stderr=subprocess.PIPE, text=True)
        for of in (pooled, through)
    ]
    for release in releases:
        _, errors = release.communicate(timeout=60)
        assert release.returncode == 0, errors


def own_settings_do_not_last(address: str) -> None:
    """Check, as a control, that a client sees the session settings of another client."""
    with psycopg.connect(address, autocommit=True) as one, psycopg.connect(address, autocommit=True) as other:
        one.execute("SET statement_timeout = 54321")
        assert other.execute("SHOW statement_timeout").fetchone() == ("54321ms",)
        one.execute("RESET statement_timeout")


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(240)
def test_a_site_works_and_heals_behind_a_pooler(pooled: dict[str, str], queue: DeliveryQueue) -> None:
    own_settings_do_not_last(pooled["DATABASE_URL"])
    two_releases_at_once(pooled)
    database = Database(factories.settings(pooled), "waybill-test")
    with database.transaction() as session:
        assert job_views.schema_version(session) == MIGRATIONS[-1]
        account_id = factories.make_account(session)
        token = api_tokens.make_token(session, account_id, "crowd")
    with FakeProvider() as fake, database:
        fake.script([{"mode": "gate"}, {"mode": "ok"}])
        times: dict[str, Any] = {**SHORT, "SWEEP_SECONDS": 0.5}
        with worker(pooled, **asking(fake, **times)) as victim:
            here = Site(fake, database, account_id, pooled, victim)
            claimed = here.submit(b"a text whose worker is killed")
            fake.wait_for_requests(1)
            victim.signal(signal.SIGKILL)
        with worker(pooled, **asking(fake, **times)) as other:
            here.worker = other
            jobs = [claimed, *(here.submit(f"Report {n}.".encode()) for n in range(12))]
            for job in jobs:
                here.wait_for(job, State.SUCCEEDED, within=40)
            assert here.outcomes(claimed) == ["lost", "succeeded"]
            assert here.orphans() == 0
            assert "Traceback" not in other.log
            many_pages_over_connections_opened_after_the_fork(pooled, token)


def many_pages_over_connections_opened_after_the_fork(pooled: dict[str, str], token: str) -> None:
    """Fork three web processes from one with the app loaded, which must hold no connection that they would share."""
    port, pooler = free_port(), make_url(pooled["DATABASE_URL"]).port
    variables = factories.environment(pooled, HOST="127.0.0.1", PORT=str(port), WEB_CONCURRENCY="3")
    with process(["-m", "gunicorn", "--preload", "wsgi:app"], variables) as web:
        factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=40, what=lambda: web.log)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/jobs")
        request.add_header("Authorization", f"Bearer {token}")

        def jobs_listed() -> int:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return len(json.load(answer)["jobs"])

        assert factories.all_at_once([jobs_listed] * 50) == [13] * 50, web.log
        first = psutil.Process(web.popen.pid)
        assert len(first.children()) == 3
        assert connections_to(first, pooler) == 0
        assert sum(connections_to(child, pooler) for child in first.children()) > 0  # control


def connections_to(one: psutil.Process, port: int | None) -> int:
    return sum(bool(found.raddr) and found.raddr.port == port for found in one.net_connections("tcp"))


def test_an_address_past_the_pooler_that_is_wrong_is_named(addresses: dict[str, str]) -> None:
    nowhere = f"postgres://u:hunter2@127.0.0.1:{free_port()}/site"
    variables = factories.environment(addresses, DIRECT_DATABASE_URL=nowhere)
    ended = completed(["-m", "flask", "--app", "wsgi", "db", "upgrade"], variables)
    assert ended.returncode == 1
    assert "DIRECT_DATABASE_URL: the database does not answer" in ended.stderr
    assert "hunter2" not in ended.stderr and "Traceback" not in ended.stderr
