"""Sends what is owed outside. Runs in every worker; any number may run, and die at any line.

A notice is postponed before it is sent and settled after it: who is killed in between leaves it owed, and it is sent
again under the same key. Each try has a thread of its own, so a server that is slow holds up nobody else.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Transaction
from tasks.fault_points import fault_point
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import outbox, preferences
from tasks.ledger.notifications.outbox import PendingNotification
from tasks.notifications.errors import GONE, NotSent
from tasks.notifications.smtp import MailPost
from tasks.notifications.webhook import WebhookPost
from tasks.settings import Settings

log = structlog.get_logger()

POLL_SECONDS = 2.0
UPKEEP_SECONDS = 600.0
USELESS_AFTER_SECONDS = 2 * 86_400.0  # where nobody can send it, such as mail after SMTP_HOST was taken away
KEPT_SECONDS = 30 * 86_400.0
Send = Callable[[PendingNotification], None]


class Sender:
    """The loop between what is owed on one channel and the world. `at_once`: how many tries may be in the air."""

    def __init__(self, transaction: Transaction, queue: str, channel: Channel, send: Send, *, at_once: int) -> None:
        self._transaction = transaction
        self._queue = queue
        self._channel = channel
        self._send = send
        self._at_once = at_once
        self._flying: dict[uuid.UUID, tuple[str, threading.Thread]] = {}
        self._changed = threading.Condition()

    def step(self) -> int:
        """Take what is due, as much as may fly, and let it fly. How many were taken."""
        with self._changed:
            free = self._at_once - len(self._flying)
            busy = {target for target, _ in self._flying.values()}
        if free <= 0:
            return 0
        with self._transaction() as session:
            due = outbox.take_due(session, queue=self._queue, channel=self._channel, limit=free, busy_targets=busy)
        if due:
            fault_point("notices.taken")
        for notice in due:
            thread = threading.Thread(target=self._try, args=(notice,), daemon=True)
            with self._changed:
                self._flying[notice.id] = (notice.target, thread)
            thread.start()
        return len(due)

    def _try(self, notice: PendingNotification) -> None:
        try:
            failure = self._outcome(notice)
            if failure is None:
                fault_point("notices.sent")
            with self._transaction() as session:
                over = failure is not None and self._note(session, notice, failure)
                if failure is None:
                    outbox.mark_sent(session, notice.id)
            code = failure.code if failure else None
            log.info(
                "notice.sent" if code is None else "notice.given_up" if over else "notice.not_sent",
                notice=notice.key, channel=str(notice.channel), what=notice.what, attempt=notice.attempt, code=code,
            )  # fmt: skip
        except SQLAlchemyError as error:
            log.warning("notice.not_settled", notice=notice.key, error=type(error).__name__)  # it is sent again
        finally:
            with self._changed:
                del self._flying[notice.id]
                self._changed.notify_all()

    def _note(self, session: Session, notice: PendingNotification, failure: NotSent) -> bool:
        """Write a failed try down. Whether it was the last one."""
        if failure.code == GONE and notice.account_id is not None:
            preferences.webhook_is_gone(session, notice.account_id, notice.target, code=GONE)
        return (
            outbox.failed(
                session, notice.id, code=failure.code, for_good=failure.for_good, wait_seconds=failure.wait_seconds
            )
            or failure.for_good
        )

    def _outcome(self, notice: PendingNotification) -> NotSent | None:
        """How the try failed; None: it was sent."""
        try:
            self._send(notice)
        except NotSent as failure:
            return failure
        except SQLAlchemyError:
            raise
        except Exception as error:  # a fault of ours in one message must not end the sending of all others
            log.error("notice.fault", notice=notice.key, error=type(error).__name__)
            return NotSent("internal")
        return None

    def wait_until_idle(self, within_seconds: float) -> bool:
        """Whether nothing is in the air any more."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._flying, within_seconds)

    def run(self, stopping: threading.Event) -> None:
        """Send until told to stop. What is in the air then has a moment to land; else it is sent again later."""
        while not stopping.is_set():
            taken = 0
            try:
                taken = self.step()
            except SQLAlchemyError as error:
                log.warning("notices.wait", channel=str(self._channel), error=type(error).__name__)
            with self._changed:
                flying = bool(self._flying)
                if flying:
                    self._changed.wait(POLL_SECONDS)  # the next one as soon as one has landed
            if not taken and not flying:
                stopping.wait(POLL_SECONDS)
        self.wait_until_idle(1.5)


class Upkeep:
    """Gives up what has become useless, and deletes the rows of what was settled long ago."""

    def __init__(self, transaction: Transaction, queue: str) -> None:
        self._transaction = transaction
        self._queue = queue

    def step(self) -> int:
        """How many rows were given up or deleted."""
        with self._transaction() as session:
            given_up = outbox.give_up_useless(session, queue=self._queue, older_than_seconds=USELESS_AFTER_SECONDS)
            deleted = outbox.delete_sent(session, queue=self._queue, older_than_seconds=KEPT_SECONDS)
        if given_up:
            log.warning("notices.useless", given_up=given_up)
        return given_up + deleted

    def run(self, stopping: threading.Event) -> None:
        """Look now and then until told to stop."""
        while not stopping.is_set():
            try:
                self.step()
            except SQLAlchemyError as error:
                log.warning("notices.upkeep_waits", error=type(error).__name__)
            stopping.wait(UPKEEP_SECONDS)


def senders(transaction: Transaction, settings: Settings) -> list[Sender]:
    """The senders of this process: webhooks always, mail where the site can send any."""
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
    """What it is signed with; None: nobody wants it at that address any more."""
    if notice.account_id is None:
        theirs = settings.alert_webhook_secret
        return theirs.get_secret_value() if theirs and notice.target == settings.alert_webhook else None
    with transaction() as session:
        return preferences.secret_for(session, notice.account_id, notice.target)
