"""A mail reaches a real mail server, encrypted, with its Message-ID; each kind of refusal has its own code."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from tasks.ledger.models.notifications import Channel
from tasks.notifications import mail_templates
from tasks.notifications.errors import NotSent
from tasks.notifications.smtp import MailPost, asked_to_wait
from tasks.settings import Settings
from tests.support import factories
from tests.support.fakes.mail_and_webhook_servers import MailReceiver, mail_receiver
from tests.tasks.notifications.conftest import Certificates, notice
from webapp.local.ports import free_port

NOWHERE = {"DATABASE_URL": "postgresql://d", "REDIS_URL": "redis://r"}


def post_to(port: int, context: ssl.SSLContext | None = None, **changed: Any) -> MailPost:
    values = {
        "smtp_host": "localhost",
        "smtp_port": port,
        "smtp_security": "none",
        "mail_from": "Waybill <waybill@example.org>",
        "app_base_url": "https://waybill.example.org",
    }
    return MailPost(settings(**{**values, **changed}), context=context)


def settings(**changed: Any) -> Settings:
    return factories.settings(NOWHERE, **changed)


def outcome(post: MailPost, target: str = "ada@example.org", **changed: Any) -> tuple[str, bool] | None:
    try:
        post.send(notice(Channel.EMAIL, target, **changed))
    except NotSent as failure:
        return failure.code, failure.for_good
    return None


def test_a_mail_arrives_encrypted_after_a_login_and_is_known_when_it_comes_again(certificates: Certificates) -> None:
    with mail_receiver(context=certificates.server("localhost")) as receiver:
        login = {"smtp_security": "starttls", "smtp_user": "site", "smtp_password": "right"}
        post = post_to(receiver.port, certificates.client, **login)
        assert outcome(post) is None
        assert outcome(post) is None
        first, second = receiver.received
        assert receiver.encrypted == [True, True]
        assert receiver.logins == [("site", "right")] * 2
        assert first["Message-ID"] == second["Message-ID"] == "<job_7_2@example.org>"
        assert first["Subject"] == "Saved: Häfen: a report"
        assert (first["To"], first["From"]) == ("ada@example.org", "Waybill <waybill@example.org>")
        assert first["Auto-Submitted"] == "auto-generated"
        assert first.get_content_type() == "text/plain"
        assert "https://waybill.example.org/jobs/7" in first.get_content()

        assert outcome(post_to(receiver.port, certificates.client, **{**login, "smtp_password": "wrong"})) == (
            "auth",
            False,
        )
        untrusting = post_to(receiver.port, ssl.create_default_context(), **login)
        assert outcome(untrusting) == ("tls", False)
        assert len(receiver.received) == 2


@pytest.fixture
def receiver() -> Any:
    with mail_receiver() as receiver:
        yield receiver


def test_a_server_without_encryption_gets_no_mail_unless_it_is_set_so(receiver: MailReceiver) -> None:
    assert outcome(post_to(receiver.port, smtp_security="starttls")) == ("not_supported", False)
    assert receiver.received == []
    assert outcome(post_to(receiver.port)) is None


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("550 no such person", ("recipient_refused", True)),
        ("451 come back later", ("recipient_refused", False)),
    ],
)
def test_a_recipient_that_is_not_there_is_given_up_and_a_busy_server_is_not(
    receiver: MailReceiver, says: str, expected: tuple[str, bool]
) -> None:
    receiver.refuse = says
    assert outcome(post_to(receiver.port)) == expected


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (b"4.7.1 Greylisted, retry in 300 seconds", 300),
        (b"4.2.0 <a@example.org>: Recipient address rejected: Greylisted for 5 minutes", 300),
        (b"Too many messages. Try again in 1 hour.", 3600),
        (b"busy. Retry-After: 90", 90),
        (b"please wait 30s", 30),
        (b"try again later", None),
        (b"retry in 0 seconds", None),
        (b"retry in 99999999999999 seconds", None),
        (b"Mailbox has 300 messages", None),
        ("\ud800", None),
    ],
)
def test_what_a_mail_server_asks_for_is_read_from_its_words(reply: bytes | str, seconds: float | None) -> None:
    assert asked_to_wait(reply) == seconds


def test_a_refused_connection_is_reported() -> None:
    assert outcome(post_to(free_port())) == ("connect", False)


def test_what_a_person_wrote_cannot_become_a_header(receiver: MailReceiver) -> None:
    wicked = {"id": "7", "title": "x\r\nBcc: everybody@example.org\r\n\r\nbody"}
    assert outcome(post_to(receiver.port), facts=wicked) is None
    (mail,) = receiver.received
    assert mail["Bcc"] is None and mail["Subject"] == "Saved: x Bcc: everybody@example.org body"
    assert outcome(post_to(receiver.port), "a@example.org\r\nBcc: b@example.org") == ("address_wrong", True)
    assert outcome(post_to(receiver.port), what="of.newer.code") == ("no_words", False)


def test_a_mail_that_opens_something_is_signed_when_it_is_made(receiver: MailReceiver) -> None:
    """Return the notification of a password reset: its row holds the account and a stamp, and no link."""
    facts = {"account": "ada", "stamp": "s"}
    assert outcome(post_to(receiver.port), what="password.reset", facts=facts) is None
    assert "https://waybill.example.org/reset/" in receiver.received[0].get_content()


@pytest.mark.parametrize(
    "title",
    [
        "The harbour committee met. The north pier is closed until…",
        "Отчёт о гавани и пирсе " * 4,
        "港口報告" * 20,
        "a " * 50,
    ],
)
def test_a_title_arrives_as_it_was_written(receiver: MailReceiver, title: str) -> None:
    assert outcome(post_to(receiver.port), facts={"id": "7", "title": title}) is None
    (mail,) = receiver.received
    assert mail["Subject"] == mail_templates.one_line(f"Saved: {title}")
    assert title in mail.get_content()


def test_a_mail_speaks_the_language_of_who_gets_it(receiver: MailReceiver) -> None:
    facts = {"account": "ada", "address": "ada@example.org", "language": "de"}
    assert outcome(post_to(receiver.port), what="email.confirm", facts=facts) is None
    assert outcome(post_to(receiver.port), what="password.changed", facts={"language": "de"}) is None
    assert outcome(post_to(receiver.port), what="password.changed", facts={"language": None}) is None
    confirm, changed, english = receiver.received
    assert confirm["Subject"] == "E-Mail-Adresse bestätigen"
    assert "bestätigen Sie es innerhalb eines Tages:\r\nhttps://waybill.example.org/" in confirm.get_content()
    assert changed["Subject"] == "Ihr Passwort wurde geändert"
    assert english["Subject"] == "Your password was changed"


def test_an_address_is_written_as_every_server_takes_it(receiver: MailReceiver) -> None:
    assert outcome(post_to(receiver.port), "ada@bücher.example") is None
    assert receiver.received[0]["To"] == "ada@xn--bcher-kva.example"
    assert outcome(post_to(receiver.port), "ädam@example.org") == ("address_wrong", True)
    assert outcome(post_to(receiver.port), "nobody") == ("address_wrong", True)
