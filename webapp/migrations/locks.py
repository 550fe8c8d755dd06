"""Runs a migration without blocking the site: it releases locks soon, reports who is in the way, and tries again.

A statement that waits for a table's lock makes every later query of that table wait behind it. A single long
transaction would therefore let a release block the whole site silently. So each try waits a few seconds for a lock at
most, then everything is rolled back, and the queries that queued up are served before the next try.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

LOCK_TIMEOUT_SECONDS = 3.0
GIVE_UP_SECONDS = 240.0
"""Fly ends a release after 5 minutes; this one must report before that who was in the way."""
MAX_PAUSE_SECONDS = 15.0
LOOK_EVERY_SECONDS = 0.5
MAX_NAME_LENGTH = 60

ONE_AT_A_TIME = 7_294_712
"""The key of the advisory lock for releases: hosts start several at once."""

# The query itself may contain a document, so only its first word is read.
IN_THE_WAY = text("""
    SELECT blocking.pid, blocking.application_name, blocking.state,
           extract(epoch FROM clock_timestamp() - blocking.xact_start) AS seconds,
           substring(blocking.query FROM '^\\s*([A-Za-z]{1,20})') AS keyword,
           wanted.locktype, wanted.relation::regclass::text AS relation
      FROM pg_locks AS wanted
      CROSS JOIN LATERAL unnest(pg_blocking_pids(wanted.pid)) AS found(pid)
      LEFT JOIN pg_stat_activity AS blocking ON blocking.pid = found.pid
     WHERE wanted.pid = :waiting AND NOT wanted.granted
     ORDER BY blocking.xact_start LIMIT 1
""")


class GivenUp(Exception):
    """Raised if the locks were never available in time. The message says who held them and what to do."""


@dataclass(frozen=True)
class Patience:
    """Limits, in seconds, how long one try waits for a lock, and how long all of them together may take."""

    one_try: float = LOCK_TIMEOUT_SECONDS
    altogether: float = GIVE_UP_SECONDS


def migrate(
    connection: Connection,
    work: Callable[[], None],
    patience: Patience = Patience(),
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> None:
    """Run `work` in one transaction on this connection, again while a lock cannot be had. Raises GivenUp."""
    end, pause = time.monotonic() + patience.altogether, 1.0
    while True:
        watch = Watch(connection.engine)
        try:
            with connection.begin(), watch.over(connection):
                _take_lock(connection, patience.one_try)
                work()
            return
        except DBAPIError as error:
            if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
                raise
        left = end - time.monotonic()
        if left < pause:
            raise GivenUp(
                f"The migration waited {patience.altogether:g} s for {watch.found} and gave up. Nothing was changed. "
                "End what is in the way, or wait for it, and run the release again."
            )
        say(f"The migration waits for {watch.found}. Next try in {pause:g} s; it gives up in {left:.0f} s.")
        time.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)


def _take_lock(connection: Connection, lock_seconds: float) -> None:
    """Limit the lock waits of this transaction, and let one release run at a time.

    Both belong to the transaction, not to the session: a pooler in transaction mode keeps no session.
    """
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(lock_seconds * 1000)}")
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ONE_AT_A_TIME})


class Watch:
    """Finds out who is in the way from another connection while the migration waits; afterwards nobody could tell."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.found = "a lock, and cannot see whose"

    @contextmanager
    def over(self, connection: Connection) -> Iterator[None]:
        """Watch while the block runs."""
        waiting = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        over = threading.Event()
        looking = threading.Thread(target=self._look, args=(waiting, over), daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()

    def _look(self, waiting: int, over: threading.Event) -> None:
        while not over.wait(LOOK_EVERY_SECONDS):
            try:
                with self._engine.connect() as other:
                    found = other.execute(IN_THE_WAY, {"waiting": waiting}).one_or_none()
            except DBAPIError:  # no connection is free: the migration continues, and nobody is named
                continue
            if found is not None:
                self.found = described(found)


def described(found: Any) -> str:
    """Return what the migration waits for and who holds it. Contains only the first word of a query."""
    what = f"the table {found.relation}" if found.relation else "another release" if _is_release(found) else "a lock"
    if found.pid is None:
        return what
    more = [found.state or "state not shown to this user"]
    if found.seconds is not None:
        more.append(f"for {float(found.seconds):.0f} s")
    if found.keyword:
        more.append(f"last statement {found.keyword.upper()}")
    name = re.sub(r"[^ -~]", "?", found.application_name or "no name")[:MAX_NAME_LENGTH]
    return f"{what}, held by process {found.pid} ({name}: {', '.join(more)})"


def _is_release(found: Any) -> bool:
    return bool(found.locktype == "advisory")
