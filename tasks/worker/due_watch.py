"""Asks for all loops of the process at once what is due. A loop that has nothing to do asks the database nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import SINGLE_STATEMENT, Database, error_name
from tasks.ledger.reports.due_work import Work, due_work
from tasks.settings import Settings

log = structlog.get_logger()

EVERYTHING = frozenset(Work)


class DueWatch:
    """Knows which kinds of work are due, at most `watch_seconds` ago. At first, and without the database, all are."""

    def __init__(self, database: Database, settings: Settings, wake_dispatcher: Callable[[], None]) -> None:
        self._database = database
        self._settings = settings
        self._wake_dispatcher = wake_dispatcher
        self._due = EVERYTHING

    def step(self) -> None:
        """Ask once, and wake the dispatcher if a delivery is due."""
        settings = self._settings
        try:
            with self._database.engine.connect() as connection:
                self._due = due_work(
                    connection.execution_options(**{SINGLE_STATEMENT: True}),
                    queue=settings.queue_name,
                    lane=settings.lane,
                    retention_days=settings.retention_days,
                )
        except SQLAlchemyError as error:
            log.warning("due_work.unknown", error=error_name(error))
            self._due = EVERYTHING
        if Work.DELIVERIES in self._due:
            self._wake_dispatcher()

    def is_due(self, work: Work) -> Callable[[], bool]:
        """Return a function that returns True while there may be work of this kind."""
        return lambda: work in self._due

    def run(self, stopping: threading.Event) -> None:
        """Ask until `stopping` is set."""
        while not stopping.wait(self._settings.watch_seconds):
            self.step()
