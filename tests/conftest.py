"""Fixtures for real services, emptied before each test that uses them: tests/support/services/per_run.py."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache

from tasks.database import Database
from tasks.ledger.models import Base
from tasks.queue import DeliveryQueue
from tasks.queue.redis_client import connect
from tasks.settings import Settings
from tests.support import factories
from tests.support import site as site_module
from tests.support.browser import chromium
from tests.support.openapi_check import CheckedClient
from tests.support.services import per_run
from webapp.local.redis import Server

# A run must not fail by chance: generated examples are the same each time. `--hypothesis-profile=default` draws others.
hypothesis.settings.register_profile("same_each_time", derandomize=True)
hypothesis.settings.load_profile("same_each_time")

for name in list(os.environ):
    if name.startswith("OPENAI_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
        del os.environ[name]  # tests reach only loopback, whatever the developer's shell says


class Compiled(BytecodeCache):
    """Shares templates that one app has compiled with the next."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._known:
            bucket.bytecode_from_string(self._known[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._known[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


def pytest_configure(config: pytest.Config) -> None:
    """Start the services in the first process of a run, and pass their addresses to the others."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(per_run.Plugin(), "run_services")


def pytest_report_header() -> str:
    """Report which browser is used: it decides how long the run takes."""
    return chromium.description()


@pytest.fixture(scope="session")
def addresses(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return DATABASE_URL and REDIS_URL of this process: a new, migrated database, and a Redis that only it uses."""
    found: dict[str, str] | None = getattr(request.config, "workerinput", {}).get(per_run.KEY)
    return found or request.config.pluginmanager.getplugin("run_services").addresses("only")


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Server]:
    """Run a Redis that a test may break, stop and start again."""
    server = Server(tmp_path / "redis")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def settings(addresses: dict[str, str]) -> Settings:
    """Return the settings of a test: short times, no AI key, plain http."""
    return factories.settings(addresses)


@pytest.fixture(scope="session")
def connected(addresses: dict[str, str]) -> Iterator[Database]:
    """Return one engine per process, for its compiled statements. It keeps no connection between tests."""
    yield Database(factories.settings(addresses), "waybill-test")


@pytest.fixture
def database(connected: Database) -> Iterator[Database]:
    """Return the database, empty."""
    with connected.transaction() as session:
        factories.empty(session)
    yield connected
    connected.close()


@pytest.fixture
def queue(settings: Settings) -> Iterator[DeliveryQueue]:
    """Return the queue, empty."""
    connection = connect(settings, connections=4)
    connection.flushdb()
    yield DeliveryQueue(settings, connection)
    connection.connection_pool.disconnect()  # close() keeps a pool open that was passed in


@pytest.fixture
def account_id(database: Database) -> uuid.UUID:
    """Create an account that owns jobs."""
    with database.transaction() as session:
        return factories.make_account(session)


@pytest.fixture
def site(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> site_module.Opened:
    """Return a function that opens a site with a scripted provider and a real worker."""
    return site_module.opener(addresses, database, account_id)


@pytest.fixture(scope="session")
def made_app(addresses: dict[str, str]) -> Flask:
    """Create one app per process: compiling its routes takes longer than most tests."""
    from webapp import create_app

    app = create_app(factories.settings(addresses))
    app.jinja_env.bytecode_cache = COMPILED
    app.config["TESTING"] = True
    app.test_client_class = CheckedClient
    return app


@pytest.fixture
def app(made_app: Flask, database: Database, queue: DeliveryQueue) -> Iterator[Flask]:
    """Return the web app over the emptied services. A test that changes it must create its own: `make_app`."""
    from webapp.extensions import db
    from webapp.http.long_polling import LongPollSlots
    from webapp.services import export_slots

    config, joined = dict(made_app.config), made_app.extensions["waybill"]
    slots = LongPollSlots(joined.settings.web_threads // 2)
    free = {"long_poll_slots": slots, "export_slots": export_slots(joined.settings)}
    made_app.extensions["waybill"] = replace(joined, **free)  # frees what an earlier test has left occupied
    yield made_app
    made_app.config.clear()
    made_app.config.update(config)
    with made_app.app_context():
        db.engine.dispose()
    made_app.extensions["waybill"].queue.connection.connection_pool.disconnect()


@pytest.fixture
def spare_database(addresses: dict[str, str]) -> Iterator[Database]:
    """Create a throw-away database with today's tables, for tests that remove constraints."""
    with factories.own_database(addresses["DATABASE_URL"]) as url:
        database = Database(factories.settings({**addresses, "DATABASE_URL": url}), "waybill-test")
        Base.metadata.create_all(database.engine)
        yield database
        database.close()


LONG_SECONDS = 150
"""Tests whose timeout is at least this long are run first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first in each process: all others would wait for one that started last."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if (mark := item.get_closest_marker("timeout")) and mark.args[0] >= LONG_SECONDS]
    chosen = set(long)
    short = [item for item in items if item not in chosen]
    share = -(-len(items) // processes)  # each process gets a contiguous part of the list at the start
    ordered: list[pytest.Item] = []
    for number in range(processes):
        first = long[number::processes]
        capacity = share - len(first)
        ordered += [*first, *short[:capacity]]
        short = short[capacity:]
    items[:] = [*ordered, *short]
