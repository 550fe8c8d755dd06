"""Connections and transactions: few connections, short transactions, none held while a provider call is in flight."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, Self, TypeVar

import psycopg
import structlog
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from tasks.settings import Settings, SettingsWrong

log = structlog.get_logger()
T = TypeVar("T")
UNREACHABLE = "{setting}: the database does not answer ({error}). Check the address, and that the server runs."
PASSING = ("08", "25006", "40001", "40P01", "53", "55P03", "57P")
"""List the SQLSTATEs, or their beginnings, of trouble that passes.

Connection lost, read-only transaction, serialization failure, deadlock, resources used up, lock not available, shutdown
or recovery: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""
LOCK_WAIT_SECONDS = 5.0
"""Limits how long a statement waits for a lock. Where it must be longer, it is tried again."""
IDLE_SECONDS = 10.0
"""Limits how long a transaction may be idle before the server ends it."""
PREPARED_AFTER = 3
"""Executions of a statement on a connection before it is prepared there."""
PREPARED_IS_GONE = ("26000", "0A000")
"""List the SQLSTATEs of a prepared statement that the server has lost, or whose columns a migration has changed."""
SESSION = "session"
"""Names the fact about a connection, in its `info`, that it is a session of the server, with no pooler between."""
SINGLE_STATEMENT = "single_statement"
"""Names the execution option of a connection that needs no transaction, since it runs one statement that reads."""
Transaction = Callable[[], AbstractContextManager[Session]]


def engine_options(settings: Settings, application_name: str) -> dict[str, Any]:
    """Return the options of every engine: a small pool, and nothing that needs session state."""
    return {
        "pool_size": settings.database_pool_size,
        "max_overflow": 0,
        "pool_timeout": 20,
        "pool_recycle": 300,
        "hide_parameters": True,  # a failing INSERT of a document must not print the document
        "connect_args": {"prepare_threshold": None, "connect_timeout": 5, "application_name": application_name},
    }


def begin_transactions(engine: Engine, *, may_have_session: bool) -> None:
    """Begin each transaction of this engine in one round trip, with limits, on a connection that is alive.

    The limits let the server end a transaction that is idle for IDLE_SECONDS, or waits for a lock too long. A process
    that freezes in a transaction, or whose machine is gone, keeps its locks for as long as the server keeps its
    connection, and all others wait for them. Where a connection is a session of the server, the limits are set once,
    and statements that come again are prepared. Behind a pooler, declared or not, neither would last: each transaction
    sets the limits, and nothing is prepared. A statement with the option SINGLE_STATEMENT has no transaction around it.
    """
    idle, lock = round(IDLE_SECONDS * 1000), round(LOCK_WAIT_SECONDS * 1000)

    def limits(scope: str) -> str:
        return f"SET {scope} idle_in_transaction_session_timeout = {idle}; SET {scope} lock_timeout = {lock}"

    def is_session(connection: psycopg.Connection[Any]) -> bool:
        # A pooler tells its client a process id of its own, by which it finds the statement to cancel.
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (None,)
        return may_have_session and pid == connection.info.backend_pid

    @event.listens_for(engine, "connect")
    def leave_the_beginning_to_us(connection: Any, record: Any) -> None:
        try:
            connection.autocommit = True
            record.info[SESSION] = is_session(connection)
            if record.info[SESSION]:
                connection.execute(limits("SESSION"))
                connection.prepare_threshold = PREPARED_AFTER
        except BaseException:
            connection.close()  # the pool does not know it yet
            raise

    @event.listens_for(engine, "checkout")
    def refuse_ended(connection: Any, *_: object) -> None:
        if _has_ended(connection):
            raise DisconnectionError

    @event.listens_for(engine, "handle_error")
    def forget_what_was_prepared(context: ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlstate", None) in PREPARED_IS_GONE:
            context.is_disconnect = True  # so that the caller tries again, on a connection that has prepared nothing

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(SINGLE_STATEMENT):
            return
        driver: Any = connection.connection.dbapi_connection
        # Another isolation level, as a backup has, is begun by the driver.
        statements = ["BEGIN"] if driver.autocommit else []
        if not connection.info[SESSION]:
            statements.append(limits("LOCAL"))
        if statements:
            connection.exec_driver_sql("; ".join(statements))


def _has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Return True if the server has closed this idle connection.

    An idle connection has nothing to read until the server says something, or ends. So one that lives costs no round
    trip, and one that ends is asked what it was.
    """
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    if not waiting.poll(0):
        return False
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return True
    return False


def let_it_idle(connection: Connection) -> None:
    """Lift the idle timeout for this transaction, which may wait long, for instance for the other end of a pipe."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")


class Persist(Protocol):
    """Runs work in a transaction and returns its result, and repeats it if the database is away for a short time."""

    def __call__(self, work: Callable[[Session], T]) -> T:
        """Run `work`, possibly more than once, so it must be guarded."""
        ...


class Database:
    """Gives a process its connection pool and its transactions."""

    def __init__(self, settings: Settings, application_name: str, *, pool_size: int | None = None) -> None:
        options = engine_options(settings, application_name)
        if pool_size is not None:
            options["pool_size"] = pool_size
        self.engine = create_engine(settings.sqlalchemy_url, **options)
        begin_transactions(self.engine, may_have_session=settings.has_database_session)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run the block in a transaction, which is committed when the block ends and rolled back when it raises."""
        with self._sessions.begin() as session:
            yield session

    def persist(self, work: Callable[[Session], T], *, for_seconds: float) -> T:
        """Run `work` in a transaction, again and again while the database cannot be reached, for up to `for_seconds`.

        For writes that a database restart must not lose, such as a paid answer. `work` must be guarded, so that it can
        be repeated when the confirmation of its commit was lost. Raises the last error when the time is over.
        """
        end_at = time.monotonic() + for_seconds
        wait = 0.1
        while True:
            try:
                with self.transaction() as session:
                    return work(session)
            except (DBAPIError, PoolTimeout) as error:
                if not is_out_of_reach(error) or time.monotonic() + wait > end_at:
                    raise
                log.warning("database.out_of_reach", error=error_name(error), retry_in_seconds=wait)
                time.sleep(wait)
                wait = min(wait * 2, 2.0)

    def require(self) -> None:
        """Raise SettingsWrong if the database does not answer. It names the setting and never its value."""
        try:
            with self.engine.connect():
                return
        except DBAPIError as error:
            raise SettingsWrong([UNREACHABLE.format(setting="DATABASE_URL", error=type(error.orig).__name__)]) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def takes_writes(session: Session) -> bool:
    """Return False while the server recovers, is a replica, or lets transactions only read."""
    statement = text("SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'")
    return bool(session.execute(statement).scalar_one())


def is_out_of_reach(error: BaseException) -> bool:
    """Return True if a retry may succeed: the trouble is the server's, and passes.

    The connection was lost or refused, or none was free; the server starts, stops, recovers, or takes no writes; its
    disk or its connections are used up; a row stayed locked; or this transaction was chosen to end a deadlock.
    """
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    return error.connection_invalidated or isinstance(error, OperationalError) or sqlstate.startswith(PASSING)


def error_name(error: BaseException) -> str:
    """Return the driver's name for an error, such as DeadlockDetected: it says more than SQLAlchemy's."""
    original = getattr(error, "orig", None)
    return type(error if original is None else original).__name__
