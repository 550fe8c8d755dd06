"""Sends pending notifications. Runs in every worker; any number may run, and be killed at any line.

A notification is postponed before it is sent and marked after it. If the worker is killed in between, it stays pending
and is sent again under the same key. Each try has its own thread, so a slow server holds up no other notification.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Transaction, error_name
from tasks.fault_points import fault_point
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import outbox, preferences
from tasks.ledger.notifications.outbox import PendingNotification
from tasks.notifications.errors import GONE, NotSent
from tasks.notifications.smtp import MailPost
from tasks.notifications.webhook import WebhookPost
from tasks.settings import Settings

log = structlog.get_logger()

POLL_SECONDS = 0.5
UPKEEP_SECONDS = 600.0
USELESS_AFTER_SECONDS = 2 * 86_400.0  # if no worker can send it, such as mail after SMTP_HOST was removed
KEPT_SECONDS = 30 * 86_400.0
Send = Callable[[PendingNotification], None]


class Sender:
    """Sends the pending notifications of one channel. `at_once` limits how many tries are in flight."""

    def __init__(self, transaction: Transaction, queue: str, channel: Channel, send: Send, *, at_once: int) -> None:
        self._transaction = transaction
        self._queue = queue
        self.channel = channel
        self._send = send
        self._at_once = at_once
        self._in_flight: dict[uuid.UUID, tuple[str, threading.Thread]] = {}
        self._changed = threading.Condition()

    def step(self) -> int:
        """Start a try for each notification that is due, up to the limit, and return how many were started."""
        with self._changed:
            free = self._at_once - len(self._in_flight)
            busy = {target for target, _ in self._in_flight.values()}
        if free <= 0:
            return 0
        with self._transaction() as session:
            due = outbox.take_due(session, queue=self._queue, channel=self.channel, limit=free, busy_targets=busy)
        if due:
            fault_point("notices.taken")
        for notice in due:
            thread = threading.Thread(target=self._try, args=(notice,), daemon=True)
            with self._changed:
                self._in_flight[notice.id] = (notice.target, thread)
            thread.start()
        return len(due)

    def _try(self, notice: PendingNotification) -> None:
        try:
            failure = self._outcome(notice)
            if failure is None:
                fault_point("notices.sent")
            with self._transaction() as session:
                given_up = failure is not None and self._record_failure(session, notice, failure)
                if failure is None:
                    outbox.mark_sent(session, notice.id)
            code = failure.code if failure else None
            log.info(
                "notice.sent" if code is None else "notice.given_up" if given_up else "notice.not_sent",
                notice=notice.key, channel=str(notice.channel), what=notice.what, attempt=notice.attempt, code=code,
            )  # fmt: skip
        except SQLAlchemyError as error:
            log.warning("notice.not_settled", notice=notice.key, error=error_name(error))  # it is sent again
        finally:
            with self._changed:
                del self._in_flight[notice.id]
                self._changed.notify_all()

    def _record_failure(self, session: Session, notice: PendingNotification, failure: NotSent) -> bool:
        """Record a failed try. Return True if it was the last try."""
        if failure.code == GONE and notice.account_id is not None:
            preferences.webhook_is_gone(session, notice.account_id, notice.target, code=GONE)
        return (
            outbox.failed(
                session, notice.id, code=failure.code, for_good=failure.for_good, wait_seconds=failure.wait_seconds
            )
            or failure.for_good
        )

    def _outcome(self, notice: PendingNotification) -> NotSent | None:
        """Send once, and return the failure; None if it was sent."""
        try:
            self._send(notice)
        except NotSent as failure:
            return failure
        except SQLAlchemyError:
            raise
        except Exception as error:  # a bug of ours in one message must not stop all others
            log.error("notice.fault", notice=notice.key, error=type(error).__name__)
            return NotSent("internal")
        return None

    def wait_until_idle(self, within_seconds: float) -> bool:
        """Wait until no try is in flight. Return False if some still are after `within_seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, within_seconds)

    def run(self, stopping: threading.Event, is_due: Callable[[], bool] = lambda: True) -> None:
        """Send until `stopping` is set, except while `is_due` says that there is nothing to send.

        Tries in flight then get 1.5 s to end; otherwise they are sent again later.
        """
        while not stopping.is_set():
            taken = 0
            try:
                taken = self.step() if is_due() else 0
            except SQLAlchemyError as error:
                log.warning("notices.wait", channel=str(self.channel), error=error_name(error))
            with self._changed:
                in_flight = bool(self._in_flight)
                if in_flight:
                    self._changed.wait(POLL_SECONDS)  # returns as soon as a try has ended
            if not taken and not in_flight:
                stopping.wait(POLL_SECONDS)
        self.wait_until_idle(1.5)


class OutboxCleanup:
    """Gives up notifications that have become useless, and deletes the rows of those that ended long ago."""

    def __init__(self, transaction: Transaction, queue: str) -> None:
        self._transaction = transaction
        self._queue = queue

    def step(self) -> int:
        """Give up and delete what is due, and return how many rows that were."""
        with self._transaction() as session:
            given_up = outbox.give_up_useless(session, queue=self._queue, older_than_seconds=USELESS_AFTER_SECONDS)
            deleted = outbox.delete_sent(session, queue=self._queue, older_than_seconds=KEPT_SECONDS)
        if given_up:
            log.warning("notices.useless", given_up=given_up)
        return given_up + deleted

    def run(self, stopping: threading.Event) -> None:
        """Step now and then until `stopping` is set."""
        while not stopping.is_set():
            try:
                self.step()
            except SQLAlchemyError as error:
                log.warning("notices.upkeep_waits", error=error_name(error))
            stopping.wait(UPKEEP_SECONDS)


def senders(transaction: Transaction, settings: Settings) -> list[Sender]:
    """Return the senders of this process: always one for webhooks, and one for mail if the site can send it."""
    webhooks = WebhookPost(loopback=settings.webhook_loopback)

    def send_webhook(notice: PendingNotification) -> None:
        secret = _secret(transaction, settings, notice)
        if secret is None:
            raise NotSent("not_wanted", for_good=True)
        webhooks.send(notice, secret)

    found = [Sender(transaction, settings.queue_name, Channel.WEBHOOK, send_webhook, at_once=8)]
    if settings.can_mail:
        found.append(Sender(transaction, settings.queue_name, Channel.EMAIL, MailPost(settings).send, at_once=4))
    return found


def _secret(transaction: Transaction, settings: Settings, notice: PendingNotification) -> str | None:
    """Return the secret that signs the webhook; None if webhooks to that URL are no longer requested."""
    if notice.account_id is None:
        secret = settings.alert_webhook_secret
        return secret.get_secret_value() if secret and notice.target == settings.alert_webhook else None
    with transaction() as session:
        return preferences.secret_for(session, notice.account_id, notice.target)
