"""Corrects the rows of jobs whose worker fell silent. Runs in every worker; any number may run at once.

Each finding is handled in its own transaction, by the same guarded updates as everywhere else, so a second reconciler
finds nothing left to do.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Transaction, error_name
from tasks.ledger.delivery import outbox
from tasks.ledger.jobs import deadlines, retention, stale, transitions
from tasks.settings import Settings

log = structlog.get_logger()

BATCH = 200
CLOSED_AT_ONCE = 20  # not urgent, and expired leases must not wait for it


class Reconciler:
    """Sweeps over expired leases, passed deadlines, waiting jobs without a delivery, and content past its retention."""

    def __init__(self, transaction: Transaction, settings: Settings, wake_dispatcher: Callable[[], None]) -> None:
        self._transaction = transaction
        self._settings = settings
        self._renewal = settings.renewal
        self._wake_dispatcher = wake_dispatcher

    def step(self) -> int:
        """Make one sweep and return how many jobs were moved or closed."""
        moved = self._each("expired", partial(stale.lost_claims, renewal=self._renewal), self._expire)
        moved += self._each("past_deadline", stale.waiting_past_deadline, self._end_at_deadline)
        moved += self._each("owed_nothing", stale.waiting_without_delivery, self._owe)
        if moved:
            self._wake_dispatcher()
        past_retention = partial(retention.past_retention, days=self._settings.retention_days)
        return moved + self._each("content_deleted", past_retention, self._delete_content, limit=CLOSED_AT_ONCE)

    def _each(
        self,
        what: str,
        find: Callable[..., list[uuid.UUID]],
        handle: Callable[[Session, uuid.UUID], object],
        limit: int = BATCH,
    ) -> int:
        with self._transaction() as session:
            found = find(session, queue=self._settings.queue_name, limit=limit)
        moved = 0
        for job_id in found:
            with self._transaction() as session:
                outcome = handle(session, job_id)
            if outcome is not None:
                moved += 1
                log.info(f"reconciled.{what}", job=job_id.hex, to=str(outcome))
        return moved

    def _expire(self, session: Session, job_id: uuid.UUID) -> object:
        return transitions.expire(
            session, job_id, max_interruptions=self._settings.max_interruptions, renewal=self._renewal
        )

    def _end_at_deadline(self, session: Session, job_id: uuid.UUID) -> object:
        return deadlines.end_at_deadline(session, job_id)

    def _owe(self, session: Session, job_id: uuid.UUID) -> object:
        return outbox.owe_waiting(session, job_id)

    def _delete_content(self, session: Session, job_id: uuid.UUID) -> object:
        deleted = retention.delete_content(session, job_id, days=self._settings.retention_days)
        return "closed" if deleted else None

    def run(self, stopping: threading.Event, is_due: Callable[[], bool] = lambda: True) -> None:
        """Sweep until `stopping` is set, except while `is_due` says that there is nothing to do."""
        while not stopping.wait(self._settings.sweep_seconds):
            try:
                if is_due():
                    self.step()
            except SQLAlchemyError as error:
                log.warning("reconciler.waits", error=error_name(error))
