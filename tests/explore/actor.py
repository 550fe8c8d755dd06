"""An actor: a process of the application, as a greenlet with a connection of its own, which stops before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import greenlet
import psycopg
from psycopg.waiting import Ready
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from tasks.database import is_out_of_reach
from tests.explore.footprint import NOTHING, Footprint, read_footprint, with_foreign_keys

T = TypeVar("T")
MAX_REPEATS = 6
# A deadlock is for the stage to see and to end, so the server must not end it first.
SERVER_OPTIONS = "-c deadlock_timeout=1h -c statement_timeout=60s"


class Status(Enum):
    """The status of an actor: stopped before a step, waiting for the server, waiting for a lock, or at its end."""

    READY = "ready"
    RUNNING = "running"
    BLOCKED = "blocked"
    DONE = "done"


class Order(Enum):
    """The order that an actor gets at a step."""

    GO = "go"
    CRASH = "crash"
    ABANDON = "abandon"


class Crashed(BaseException):
    """Raised where the process dies: it does nothing more, and the server rolls its transaction back."""


class Abandoned(BaseException):
    """Raised to end an actor whose schedule is not followed any further."""


class AnswerLost(Exception):
    """Raised after a COMMIT that has succeeded, as if the connection had ended before its answer arrived."""


class SteppedConnection(psycopg.Connection[Any]):
    """A connection that lets the stage wait for the server's answers, while its actor waits in its greenlet."""

    actor: Actor | None = None

    def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
        """Consume the generator, and give control to the stage whenever it must wait for the socket."""
        actor = self.actor
        if actor is None or not actor.is_current:
            return super().wait(gen, *args, **more)
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send(Ready(actor.await_socket(self.pgconn.socket, int(wanted))))
        except StopIteration as end:
            return end.value


class Actor:
    """One process. Its work is a function of the actor, which gives it transactions as `tasks.database` does.

    `outcome` is what the work returned, or the exception that ended it. `pending` is the step before which it stopped,
    and `transaction_so_far` the footprint of its open transaction.
    """

    def __init__(self, index: int, url: str) -> None:
        self.index = index
        self.name = f"w{index + 1}"
        self.pid = 0
        self.status = Status.DONE
        self.pending = NOTHING
        self.transaction_so_far = NOTHING
        self.outcome: object = None
        self.socket = (0, 0)
        self.commits = 0
        self.repeats = 0
        self.lost_answers: frozenset[int] = frozenset()
        self._greenlet: greenlet.greenlet | None = None
        self._work: Callable[[Actor], object] = lambda actor: None
        self._sessions = sessionmaker(self._connected_engine(url), expire_on_commit=False)

    def _connected_engine(self, url: str) -> Engine:
        arguments = {"prepare_threshold": None, "options": SERVER_OPTIONS, "application_name": self.name}
        self.engine = engine = create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments)

        @event.listens_for(engine, "do_connect")
        def connect(dialect: object, record: object, args: Any, parameters: Any) -> SteppedConnection:
            connection = SteppedConnection.connect(*args, **parameters)
            connection.actor = self
            self.pid = connection.info.backend_pid
            return connection

        event.listen(engine, "before_cursor_execute", self._before_statement)
        event.listen(engine, "commit", self._before_commit)
        event.listen(engine, "rollback", self._transaction_ended)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        return engine

    @property
    def is_current(self) -> bool:
        """Return True if the code that runs is this actor's."""
        return greenlet.getcurrent() is self._greenlet

    def begin(self, work: Callable[[Actor], object], lost_answers: frozenset[int] = frozenset()) -> None:
        """Begin the work, up to its first step. The answers to the commits in `lost_answers`, from 1, get lost."""
        self.outcome, self.commits, self.repeats, self.lost_answers = None, 0, 0, lost_answers
        self._work = work
        self._greenlet = greenlet.greenlet(self._live)
        self.resume(None)

    def resume(self, value: object) -> None:
        """Let the actor run until its next step, its next wait for the server, or its end."""
        assert self._greenlet is not None
        self.status = self._greenlet.switch(value)

    def _live(self, _: object) -> Status:
        try:
            self.outcome = self._work(self)
        except BaseException as error:
            self.outcome = error
        return Status.DONE

    def await_socket(self, number: int, wanted: int) -> int:
        """Wait until the stage has seen that the socket is ready, and return for what."""
        self.socket = (number, wanted)
        ready: int = self._back_to_stage(Status.RUNNING)
        return ready

    def _back_to_stage(self, status: Status) -> Any:
        assert self._greenlet is not None and self._greenlet.parent is not None
        return self._greenlet.parent.switch(status)

    def _stop_before(self, step: Footprint) -> None:
        self.pending = step
        order = self._back_to_stage(Status.READY)
        if order is Order.CRASH:
            raise Crashed
        if order is Order.ABANDON:
            raise Abandoned

    def _before_statement(
        self, connection: Connection, cursor: object, statement: str, parameters: Any, context: object, many: bool
    ) -> None:
        if not self.is_current or statement.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK TO")):
            return
        step = with_foreign_keys(
            read_footprint(statement, parameters[0] if many else parameters), self.transaction_so_far
        )
        self._stop_before(step)
        self.transaction_so_far = self.transaction_so_far.joined(step)

    def _before_commit(self, connection: Connection) -> None:
        if not self.is_current:
            return
        done = self.transaction_so_far
        self._stop_before(Footprint("COMMIT", writes=done.writes, locks=done.locks, commit=True))
        self._transaction_ended(connection)

    def _transaction_ended(self, connection: Connection) -> None:
        self.transaction_so_far = NOTHING

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run the block in a transaction, as `Database.transaction` does."""
        with self._sessions.begin() as session:
            yield session
        self.commits += 1
        if self.commits in self.lost_answers:
            raise AnswerLost

    def persist(self, work: Callable[[Session], T]) -> T:
        """Run the work in a transaction, and repeat it as `Database.persist` does, but without a pause."""
        while True:
            try:
                with self.transaction() as session:
                    return work(session)
            except (DBAPIError, AnswerLost) as error:
                self.repeats += 1
                if (not isinstance(error, AnswerLost) and not is_out_of_reach(error)) or self.repeats > MAX_REPEATS:
                    raise

    def close(self) -> None:
        """Close the connection."""
        self.engine.dispose()
