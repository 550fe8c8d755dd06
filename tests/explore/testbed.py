"""The testbed: a database of its own whose start states are put back quickly, and the stage with its actors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

from tasks.ledger.models import Base
from tests.explore.snapshot import Snapshot, take_snapshot
from tests.explore.stage import Stage
from tests.explore.start_states import START_STATES
from tests.explore.world import World, explorer_settings
from tests.support import factories

TABLES = [table.name for table in Base.metadata.sorted_tables]
SAVED_SECONDS = 60.0
"""Limits the age of a start state that is put back, since its leases go on towards their end."""


class Testbed:
    """Builds start states, saves their rows, and puts them back."""

    __test__ = False

    def __init__(self, url: str, actors: int) -> None:
        self.settings = explorer_settings(url)
        address = self.settings.sqlalchemy_url
        self._engine = create_engine(address, pool_size=1, connect_args={"prepare_threshold": None})
        self.sessions = sessionmaker(self._engine, expire_on_commit=False)
        Base.metadata.create_all(self._engine)
        with self._engine.begin() as connection:
            for table in TABLES:
                connection.execute(text(f"CREATE UNLOGGED TABLE saved_{table} (LIKE {table})"))
            # The testbed is emptied again and again, also of the audit log.
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER USER"))
        self.stage = Stage(address, actors)
        self._saved: tuple[str, World, Sequence[str], float] | None = None

    def put_back(self, state: str) -> World:
        """Return the world of this start state, with its rows in the tables."""
        if self._saved is None or self._saved[0] != state or time.monotonic() > self._saved[3]:
            self._saved = self._build(state)
        else:
            fills = [
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM saved_{table}" for table in self._saved[2]
            ]
            self._execute(*_empty(), *fills)
        return self._saved[1].copy()

    def _build(self, state: str) -> tuple[str, World, Sequence[str], float]:
        self._execute(*_empty())
        with self.sessions.begin() as session:
            world = START_STATES[state](session, self.settings)
        filled = []
        with self._engine.begin() as connection:
            for table in TABLES:
                connection.execute(text(f"DELETE FROM saved_{table}"))
                if connection.execute(text(f"INSERT INTO saved_{table} SELECT * FROM {table}")).rowcount:
                    filled.append(table)
        return state, world, filled, time.monotonic() + SAVED_SECONDS

    def empty(self) -> None:
        """Delete all rows."""
        self._saved = None
        self._execute(*_empty())

    def _execute(self, *statements: str) -> None:
        """Execute these statements at once."""
        with self._engine.begin() as connection:
            connection.execute(text(f"DO $$ BEGIN {'; '.join(statements)}; END $$"))

    def snapshot(self) -> Snapshot:
        """Return all rows as they are now."""
        with self._engine.connect() as connection:
            return take_snapshot(connection)

    def close(self) -> None:
        """Close all connections."""
        self.stage.close()
        self._engine.dispose()


def _empty() -> list[str]:
    return [f"DELETE FROM {table}" for table in reversed(TABLES)]


@contextmanager
def open_testbed(address: str, *, actors: int = 2) -> Iterator[Testbed]:
    """Create a database on this server for the explorer; dropped at the end."""
    with factories.own_database(address) as url:
        testbed = Testbed(url, actors)
        try:
            yield testbed
        finally:
            testbed.close()
