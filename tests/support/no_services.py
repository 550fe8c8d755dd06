"""A pytest plugin for `make check` that leaves out every test that needs PostgreSQL, Redis or a browser.

It deselects the tests that ask for the `addresses` fixture, and those that are marked for killed processes, races or a
browser. It removes the addresses of services from the environment, and fails a test that starts a server by itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ADDRESSES = ("DATABASE_URL", "REDIS_URL")
MARKS = ("browser", "crash", "race")
SERVERS = frozenset({"chromium", "initdb", "pg_ctl", "pgbouncer", "postgres", "redis-server", "valkey-server"})


class ServiceStarted(Exception):
    """Raised in a test that starts a server although it does not ask for the `addresses` fixture."""


def needs_a_service(item: pytest.Item) -> bool:
    """Return True if the test asks for running services, by fixture or by mark."""
    return "addresses" in item.fixturenames or any(item.get_closest_marker(mark) for mark in MARKS)


def refuse_servers(event: str, arguments: tuple[object, ...]) -> None:
    """Raise ServiceStarted when this process is about to start a server."""
    if event != "subprocess.Popen":
        return
    name = Path(os.fsdecode(arguments[0])).name
    if name in SERVERS:
        raise ServiceStarted(f"{name} has no place in `make check`: ask for the `addresses` fixture, or mark the test.")


def pytest_configure() -> None:
    """Forget the services of the developer's shell, and refuse to start others."""
    for name in ADDRESSES:
        os.environ.pop(name, None)
    sys.addaudithook(refuse_servers)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need a service."""
    left_out = [item for item in items if needs_a_service(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not needs_a_service(item)]
