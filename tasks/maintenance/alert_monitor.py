"""Alerts an operator when a limit is exceeded, and when it is met again. Runs in every worker; one of them sends.

No worker can report that no worker is running. `/readyz` reports it, to a monitor that watches the site from outside.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Transaction, error_name
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import alerts, outbox
from tasks.ledger.notifications.alerts import AlertThresholds, Notification
from tasks.settings import Settings

log = structlog.get_logger()

CHECK_SECONDS = 30.0


class AlertMonitor:
    """Checks the alert thresholds."""

    def __init__(self, transaction: Transaction, settings: Settings) -> None:
        self._transaction = transaction
        self._settings = settings
        self._thresholds = AlertThresholds(
            queue_age_seconds=settings.alert_queue_age_seconds,
            failures=settings.alert_failures_per_hour,
            renewal=settings.renewal,
        )

    def step(self) -> Sequence[Notification]:
        """Measure, enqueue the notifications that are due to the operator, and return them."""
        settings = self._settings
        with self._transaction() as session:
            found = alerts.measured(session, queue=settings.queue_name, lane=settings.lane, limits=self._thresholds)
            notifications = alerts.update_alerts(session, queue=settings.queue_name, found=found)
            for notification in notifications:
                self._enqueue(session, notification)
        for notification in notifications:
            log.warning(notification.what, kind=str(notification.kind), **notification.facts)
        return notifications

    def _enqueue(self, session: Session, notification: Notification) -> None:
        facts = {
            "kind": str(notification.kind),
            "phase": notification.what.removeprefix("alert."),
            "began_at": notification.began_at.isoformat(timespec="seconds"),
            "measured": dict(notification.facts),
        }
        for channel, target in (
            (Channel.EMAIL, self._settings.alert_email),
            (Channel.WEBHOOK, self._settings.alert_webhook),
        ):
            if target is not None:
                outbox.enqueue(
                    session,
                    queue=self._settings.queue_name,
                    key=f"{notification.key}_{channel}",
                    channel=channel,
                    target=target,
                    what=notification.what,
                    facts=facts,
                )

    def run(self, stopping: threading.Event) -> None:
        """Check the thresholds until `stopping` is set."""
        while not stopping.wait(min(CHECK_SECONDS, self._thresholds.queue_age_seconds)):
            try:
                self.step()
            except SQLAlchemyError as error:
                log.warning("alerts.wait", error=error_name(error))
