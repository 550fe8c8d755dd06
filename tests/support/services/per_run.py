"""Starts one PostgreSQL for a whole run of the tests, and one Redis for each of its processes.

They are started before the processes of the run split, since two that start a service at the same moment conflict. Each
process has its own database and its own Redis: some tests change settings of a whole server, such as the limit of
clients. DATABASE_URL and REDIS_URL are used instead if they are set; then each process has its own database number in
that Redis.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from tests.support import factories
from webapp.local.errors import CannotStart
from webapp.local.postgresql import postgresql
from webapp.local.redis import redis
from webapp.local.services import temporary_directory

KEY = "addresses"


class RunServices:
    """The services of a run, in the process that started it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._directory = Path(self._stack.enter_context(temporary_directory()))
        self._migrated: str | None = None

    def addresses_for(self, process: str, number: int) -> dict[str, str]:
        """Return DATABASE_URL and REDIS_URL for one process of the run. Raises CannotStart."""
        if self._migrated is None:
            self._migrated = self._migrated_database()
        database_url = self._stack.enter_context(factories.own_database(self._migrated, template=True))
        return {"DATABASE_URL": database_url, "REDIS_URL": self._redis(process, number)}

    def _migrated_database(self) -> str:
        server = os.environ.get("DATABASE_URL") or self._stack.enter_context(
            postgresql(self._directory / "postgresql", throwaway=True)
        )
        address = self._stack.enter_context(factories.own_database(server))
        factories.migrate({"DATABASE_URL": address, "REDIS_URL": "redis://127.0.0.1"})
        return address

    def _redis(self, process: str, number: int) -> str:
        given = os.environ.get("REDIS_URL")
        if given is None:
            return self._stack.enter_context(redis(self._directory / f"redis-{process}"))
        url = make_url(given)
        first = int((url.database or "0").strip("/") or 0)
        address = url.set(database=str(first + number)).render_as_string(hide_password=False)
        factories.refuse_a_redis_in_use(address)
        return address

    def close(self) -> None:
        """Stop what was started and drop what was created."""
        self._stack.close()


class Plugin:
    """Passes the addresses to each process of the run, before it starts."""

    def __init__(self) -> None:
        self._services = RunServices()
        self._processes = 0

    def addresses(self, process: str) -> dict[str, str]:
        """Return the addresses for one more process. Ends the run with one sentence if a service cannot start."""
        try:
            found = self._services.addresses_for(process, self._processes)
        except CannotStart as error:
            pytest.exit(str(error), returncode=1)
        self._processes += 1
        return found

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Add the addresses to the other processes. Called by pytest-xdist in the first process, for each of them."""
        node.workerinput[KEY] = self.addresses(node.gateway.id)

    def pytest_unconfigure(self) -> None:
        self._services.close()
