"""Pending notifications are sent, by any number of senders; a notification that cannot be sent harms no other."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from sqlalchemy import select, text
from standardwebhooks.webhooks import Webhook

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.ledger.models.notifications import Channel, Notice
from tasks.ledger.notifications import outbox, preferences
from tasks.ledger.notifications.outbox import MAX_WAIT_SECONDS, PAUSES_SECONDS, TRIES, PendingNotification
from tasks.ledger.states import State
from tasks.notifications.errors import NotSent
from tasks.notifications.sender import OutboxCleanup, Sender, senders
from tasks.settings import Settings
from tests.support import factories
from tests.support.fakes.mail_and_webhook_servers import MailReceiver, WebhookReceiver, mail_receiver, webhook_receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def hook() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as receiver:
        yield receiver


@pytest.fixture
def mailbox() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


def telling(settings: Settings, **more: Any) -> Settings:
    return settings.model_copy(update={"webhook_loopback": True, "app_base_url": "http://127.0.0.1", **more})


def mailing(settings: Settings, mailbox: MailReceiver, **more: Any) -> Settings:
    ours = {"smtp_host": "127.0.0.1", "smtp_port": mailbox.port, "smtp_security": "none", "mail_from": "w@example.org"}
    return telling(settings, **ours, **more)


def send_all(database: Database, settings: Settings) -> int:
    """Run a step of each sender of a process, and wait until its tries have ended."""
    taken = 0
    for sender in senders(database.transaction, settings):
        taken += sender.step()
        assert sender.wait_until_idle(20)
    return taken


def come_due(database: Database) -> None:
    with database.transaction() as session:
        session.execute(text("UPDATE notices SET due_at = now()"))


def rows(database: Database) -> list[Notice]:
    with database.transaction() as session:
        return list(session.execute(select(Notice).order_by(Notice.key)).scalars())


def a_job_ends(database: Database, account_id: uuid.UUID, url: str | None, address: str | None = None) -> uuid.UUID:
    with database.transaction() as session:
        if url is not None:
            preferences.set_webhook(session, account_id, url)
        if address is not None:
            preferences.set_email(session, account_id, address, on=True)
        job_id = factories.submit(session, account_id, uuid.uuid4().hex.encode()).job_id
        transitions.succeed(session, factories.claim(session, job_id), text="The pier.", facts={})
        return job_id


def test_both_ways_of_telling_arrive_once(
    database: Database, settings: Settings, account_id: uuid.UUID, hook: WebhookReceiver, mailbox: MailReceiver
) -> None:
    job_id = a_job_ends(database, account_id, hook.url, "ada@example.org")
    with database.transaction() as session:
        secret = preferences.secret_for(session, account_id, hook.url)
    ours = mailing(settings, mailbox)
    assert send_all(database, ours) == 2
    come_due(database)
    assert send_all(database, ours) == 0
    assert secret is not None
    payload = Webhook(secret).verify(hook.received[0].body, dict(hook.received[0].headers))
    assert payload["data"]["id"] == str(job_id)
    assert mailbox.received[0]["To"] == "ada@example.org"
    assert (len(hook.received), len(mailbox.received)) == (1, 1)


def test_a_failing_webhook_backs_off_and_is_given_up_and_its_job_never_hears_of_it(
    database: Database, settings: Settings, account_id: uuid.UUID, hook: WebhookReceiver
) -> None:
    job_id = a_job_ends(database, account_id, hook.url)
    with database.transaction() as session:
        before = session.execute(text("SELECT * FROM jobs")).one()
    hook.answers = [500] * (TRIES + 5)
    for attempt in range(1, TRIES + 1):
        assert send_all(database, telling(settings)) == 1, attempt
        assert send_all(database, telling(settings)) == 0, "it waits"
        come_due(database)
    assert send_all(database, telling(settings)) == 0
    (row,) = rows(database)
    assert (row.tries, row.error_code, row.gave_up_at is not None) == (TRIES, "http_500", True)
    assert len({request.headers["webhook-id"] for request in hook.received}) == 1
    with database.transaction() as session:
        assert session.execute(text("SELECT * FROM jobs")).one() == before
        assert factories.state_of(session, job_id) is State.SUCCEEDED


def test_a_webhook_that_is_not_wanted_any_more_gets_nothing(
    database: Database, settings: Settings, account_id: uuid.UUID, hook: WebhookReceiver
) -> None:
    a_job_ends(database, account_id, hook.url)
    with database.transaction() as session:
        preferences.remove_webhook(session, account_id)
    assert send_all(database, telling(settings)) == 1
    assert hook.received == [] and rows(database)[0].error_code == "not_wanted"


def test_an_alert_is_signed_with_the_operators_secret(
    database: Database, settings: Settings, hook: WebhookReceiver
) -> None:
    with database.transaction() as session:
        outbox.enqueue(
            session,
            queue=factories.QUEUE,
            key="alert_1_began",
            channel=Channel.WEBHOOK,
            target=hook.url,
            what="alert.began",
            facts={"kind": "orphans"},
        )
    theirs = factories.settings(
        {"DATABASE_URL": settings.database_url.get_secret_value(), "REDIS_URL": "redis://r"},
        webhook_loopback=True,
        alert_webhook=hook.url,
        alert_webhook_secret=SECRET,
    )
    assert send_all(database, theirs) == 1
    assert Webhook(SECRET).verify(hook.received[0].body, dict(hook.received[0].headers))["type"] == "alert.began"


def test_a_server_that_says_nothing_holds_up_nobody_else(database: Database) -> None:
    stuck, seen = threading.Event(), []

    def send(notice: PendingNotification) -> None:
        if notice.target == "slow":
            stuck.wait(30)
            raise NotSent("timeout")
        seen.append(notice.key)

    with database.transaction() as session:
        for key, target in (("a", "slow"), ("b", "slow"), ("c", "quick"), ("d", "quick")):
            outbox.enqueue(
                session, queue=factories.QUEUE, key=key, channel=Channel.WEBHOOK, target=target, what="test", facts={}
            )
    sender = Sender(database.transaction, factories.QUEUE, Channel.WEBHOOK, send, at_once=2)
    stopping = threading.Event()
    loop = threading.Thread(target=sender.run, args=(stopping,))
    loop.start()
    try:
        factories.wait_until(lambda: len(seen) == 2, what=lambda: str(seen))
        assert sorted(seen) == ["c", "d"]
    finally:
        stuck.set()
        stopping.set()
        loop.join(20)


def test_a_fault_of_ours_in_one_message_ends_no_other(database: Database) -> None:
    def send(notice: PendingNotification) -> None:
        if notice.key == "bad":
            raise KeyError("facts")

    with database.transaction() as session:
        for key in ("bad", "good"):
            outbox.enqueue(
                session, queue=factories.QUEUE, key=key, channel=Channel.EMAIL, target=key, what="test", facts={}
            )
    sender = Sender(database.transaction, factories.QUEUE, Channel.EMAIL, send, at_once=4)
    assert sender.step() == 2 and sender.wait_until_idle(20)
    assert [(row.key, row.error_code, row.sent_at is not None) for row in rows(database)] == [
        ("bad", "internal", False),
        ("good", None, True),
    ]


def test_mail_that_this_site_cannot_send_any_more_is_given_up_in_the_end(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    a_job_ends(database, account_id, None, "ada@example.org")
    assert send_all(database, telling(settings)) == 0, "without SMTP nobody takes it"
    with database.transaction() as session:
        session.execute(text("UPDATE notices SET created_at = now() - interval '3 days'"))
    assert OutboxCleanup(database.transaction, factories.QUEUE).step() == 1
    assert rows(database)[0].error_code == "expired"


def two_jobs_end(database: Database, account_id: uuid.UUID, url: str) -> None:
    for _ in range(2):
        with database.transaction() as session:
            job_id = factories.submit(session, account_id, uuid.uuid4().hex.encode()).job_id
            transitions.succeed(session, factories.claim(session, job_id), text="The pier.", facts={})
    assert {row.target for row in rows(database)} == {url}


def test_a_receiver_that_is_gone_is_never_asked_again_and_no_other_account_loses_its_own(
    database: Database, settings: Settings, account_id: uuid.UUID, hook: WebhookReceiver
) -> None:
    with database.transaction() as session:
        other = factories.make_account(session)
        for one in (account_id, other):
            preferences.set_webhook(session, one, hook.url)
    two_jobs_end(database, account_id, hook.url)
    hook.answers = [500, 410]
    assert send_all(database, telling(settings)) == 1
    with database.transaction() as session:
        wish = preferences.preference_of(session, account_id)
        assert wish is not None and wish.webhook_url == hook.url, "the control: any other refusal switches nothing off"
    come_due(database)
    assert send_all(database, telling(settings)) == 1
    with database.transaction() as session:
        wish, others = preferences.preference_of(session, account_id), preferences.preference_of(session, other)
    assert wish is not None and (wish.webhook_url, wish.webhook_secret) == (None, None)
    assert wish.webhook_gone_url == hook.url and wish.webhook_gone_at is not None
    assert others is not None and (others.webhook_url, others.webhook_gone_url) == (hook.url, None)
    assert [(row.error_code, row.gave_up_at is not None, row.facts) for row in rows(database)] == [
        ("gone", True, {})
    ] * 2
    two_jobs_end(database, account_id, hook.url)
    come_due(database)
    assert send_all(database, telling(settings)) == 0 and len(hook.received) == 2
    with database.transaction() as session:
        preferences.set_webhook(session, account_id, hook.url)
        wish = preferences.preference_of(session, account_id)
        assert wish is not None and wish.webhook_gone_url is None
    two_jobs_end(database, account_id, hook.url)
    assert send_all(database, telling(settings)) == 1 and len(hook.received) == 3


def test_an_answer_of_an_address_that_was_left_meanwhile_switches_nothing_off(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        preferences.set_webhook(session, account_id, "https://new.example.org/")
        preferences.webhook_is_gone(session, account_id, "https://old.example.org/", code="gone")
        wish = preferences.preference_of(session, account_id)
    assert wish is not None and wish.webhook_url == "https://new.example.org/" and wish.webhook_gone_url is None


def waits(database: Database) -> list[float]:
    """Return the seconds until each notification is due, in the order of their keys."""
    with database.transaction() as session:
        due = text("SELECT extract(epoch FROM due_at - now()) FROM notices ORDER BY key")
        return [float(seconds) for seconds in session.execute(due).scalars()]


OURS = PAUSES_SECONDS[0]


@pytest.mark.parametrize(
    ("says", "again", "others"),
    [
        ("7200", 7200, 7200),
        ("in two hours", 7200, 7200),
        ("999999999", MAX_WAIT_SECONDS, MAX_WAIT_SECONDS),
        ("5", OURS, 5),
        ("soon", OURS, 0),
        ("", OURS, 0),
    ],
    ids=["seconds", "date", "too long", "shorter than ours", "odd", "control: nothing"],
)
def test_a_receiver_says_when_to_come_back_and_is_left_alone_with_all_that_is_owed_to_it(
    database: Database,
    settings: Settings,
    account_id: uuid.UUID,
    hook: WebhookReceiver,
    says: str,
    again: float,
    others: float,
) -> None:
    if says == "in two hours":
        says = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    hook.answers, hook.retry_after = [503], says
    with database.transaction() as session:
        preferences.set_webhook(session, account_id, hook.url)
    for key, target in (("a", hook.url), ("b", hook.url), ("c", "https://elsewhere.example/")):
        with database.transaction() as session:
            outbox.enqueue(
                session,
                queue=factories.QUEUE,
                key=key,
                channel=Channel.WEBHOOK,
                target=target,
                what="test",
                facts={},
                account_id=account_id,
            )
    with database.transaction() as session:
        session.execute(text("UPDATE notices SET due_at = now() + interval '1 hour' WHERE key = 'c'"))
    assert send_all(database, telling(settings)) == 1
    first, second, elsewhere = waits(database)
    assert rows(database)[0].error_code == "http_503"
    slow = 100  # seconds that this machine may take
    assert again - slow < first <= again + 1
    assert others - slow < second <= others + 1
    assert 3600 - slow < elsewhere <= 3600


def test_a_mail_server_says_when_to_come_back(
    database: Database, settings: Settings, account_id: uuid.UUID, mailbox: MailReceiver
) -> None:
    mailbox.refuse = "450 4.2.0 Greylisted, please try again in 15 minutes"
    a_job_ends(database, account_id, None, "ada@example.org")
    assert send_all(database, mailing(settings, mailbox)) == 1
    [wait] = waits(database)
    assert 840 < wait <= 900 and rows(database)[0].error_code == "recipient_refused"
    mailbox.refuse = ""
    come_due(database)
    assert send_all(database, mailing(settings, mailbox)) == 1 and len(mailbox.received) == 1
