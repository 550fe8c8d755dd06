"""Tells an operator when a limit is passed, and when it is kept again. Runs in every worker; one of them tells.

That no worker is there at all cannot be told by a worker: `/readyz` says so, for whoever watches the site from outside.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Transaction
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import alerts, outbox
from tasks.ledger.notifications.alerts import AlertThresholds, Notification
from tasks.settings import Settings

log = structlog.get_logger()

LOOK_SECONDS = 30.0


class Alerts:
    """The look at the limits."""

    def __init__(self, transaction: Transaction, settings: Settings) -> None:
        self._transaction = transaction
        self._settings = settings
        self._limits = AlertThresholds(
            queue_age_seconds=settings.alert_queue_age_seconds,
            failures=settings.alert_failures_per_hour,
            orphan_grace_seconds=2 * settings.sweep_seconds + 1,
        )

    def step(self) -> Sequence[Notification]:
        """Measure, and owe the operator what there is to tell. What that was."""
        settings = self._settings
        with self._transaction() as session:
            found = alerts.measured(session, queue=settings.queue_name, lane=settings.lane, limits=self._limits)
            told = alerts.update_alerts(session, queue=settings.queue_name, found=found)
            for telling in told:
                self._owe(session, telling)
        for telling in told:
            log.warning(telling.what, kind=str(telling.kind), **telling.facts)
        return told

    def _owe(self, session: Session, telling: Notification) -> None:
        facts = {
            "kind": str(telling.kind),
            "phase": telling.what.removeprefix("alert."),
            "began_at": telling.began_at.isoformat(timespec="seconds"),
            "measured": dict(telling.facts),
        }
        for channel, target in (
            (Channel.EMAIL, self._settings.alert_email),
            (Channel.WEBHOOK, self._settings.alert_webhook),
        ):
            if target is not None:
                outbox.enqueue(
                    session,
                    queue=self._settings.queue_name,
                    key=f"{telling.key}_{channel}",
                    channel=channel,
                    target=target,
                    what=telling.what,
                    facts=facts,
                )

    def run(self, stopping: threading.Event) -> None:
        """Look until told to stop."""
        while not stopping.wait(min(LOOK_SECONDS, self._limits.queue_age_seconds)):
            try:
                self.step()
            except SQLAlchemyError as error:
                log.warning("alerts.wait", error=type(error).__name__)
