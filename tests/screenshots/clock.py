"""A database whose clock stands still and is set by hand, so that each run of the pictures shows the same times.

The app has one clock, the database's. Here its two functions are found in `public` before those of PostgreSQL, even by
the defaults of the tables, which are created later.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg

NOW = datetime(2026, 3, 12, 14, 32, 10, tzinfo=UTC)
"""The time at which the pictures are taken: a Thursday afternoon."""

_HANDS = """
CREATE TABLE standing_clock (at timestamptz NOT NULL);
INSERT INTO standing_clock VALUES ('-infinity');
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM public.standing_clock';
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT public.now()';
"""


class StandingClock:
    """Installs the clock in a database that has no tables yet."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._connection.execute(_HANDS)
        name = self._connection.info.dbname
        self._connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
        self.set(NOW)

    def set(self, at: datetime) -> None:
        """Set the time for everybody who uses this database."""
        self._connection.execute("UPDATE standing_clock SET at = %s", [at])

    def close(self) -> None:
        self._connection.close()


def before(**how_long: float) -> datetime:
    """Return a time before that of the pictures: `before(hours=2)`."""
    return NOW - timedelta(**how_long)
