"""The text of mails, the signature of webhooks, and the settings that go together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.notifications.mail_templates import MAILS, one_line
from tasks.notifications.signed_links import Links, read_token
from tasks.notifications.webhook_signature import is_usable_secret, signed_headers
from tasks.settings import Settings
from tasks.startup import notifications

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MAILING = {
    "smtp_host": "mail.example.org",
    "mail_from": "Waybill <waybill@example.org>",
    "app_base_url": "https://waybill.example.org/",
    "secret_key": "a long random text of our own",
}


def settings(**changed: Any) -> Settings:
    return Settings(database_url="postgresql://d", redis_url="redis://r", **changed)


def test_the_signature_is_the_one_of_the_published_example() -> None:
    at = datetime.fromtimestamp(1614265330, UTC)
    assert signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", '{"test": 2432232314}', SECRET, at) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("secret", "usable"),
    [(SECRET, True), (SECRET[6:], False), ("whsec_", False), ("whsec_c2hvcnQ=", False), ("", False)],
)
def test_a_secret_is_looked_at_before_anything_is_signed_with_it(secret: str, usable: bool) -> None:
    assert is_usable_secret(secret) is usable


def test_a_link_in_a_mail_proves_what_it_was_made_for_and_nothing_else() -> None:
    ours = settings(**MAILING)
    link = Links(ours).signed("/reset", "password reset", ["ada", "stamp"])
    start, _, token = link.rpartition("/")
    assert start == "https://waybill.example.org/reset"
    assert read_token(ours, "password reset", token, max_age_seconds=60) == ["ada", "stamp"]
    assert read_token(ours, "another purpose", token, max_age_seconds=60) is None
    assert read_token(ours, "password reset", token[:-2], max_age_seconds=60) is None
    assert read_token(ours, "password reset", token, max_age_seconds=-1) is None
    other = settings(**{**MAILING, "secret_key": "a long random text of theirs"})
    assert read_token(other, "password reset", token, max_age_seconds=60) is None


def test_every_mail_can_be_made_and_leads_back_to_the_site() -> None:
    alert = {"kind": "queue_age", "began_at": "2026-11-29", "measured": {"seconds": 700, "limit": 600, "code": None}}
    about = {"id": "7", "title": "Harbour report", "account": "ada", "address": "ada@example.org"}
    about |= {"stamp": "s", "invitation": ""}
    for what, words in MAILS.items():
        facts = {**alert, "phase": what.removeprefix("alert.")} if what.startswith("alert.") else about
        mail = words(facts, Links(settings(**MAILING)))
        assert mail.subject and "https://waybill.example.org/" in mail.text, what
        assert "None" not in mail.text, what
        if what.startswith("job."):
            assert "Harbour report" in mail.subject and "https://waybill.example.org/jobs/7" in mail.text


def test_a_subject_is_one_short_line() -> None:
    assert one_line("Saved: a\r\nBcc: everybody@example.org\x00\u2028x") == "Saved: a Bcc: everybody@example.org x"
    assert len(one_line("word " * 100)) <= 120


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, ""),
        ({"mail_from": None}, "MAIL_FROM"),
        ({"mail_from": "nobody"}, "MAIL_FROM"),
        ({"app_base_url": None}, "APP_BASE_URL"),
        ({"secret_key": None}, "SECRET_KEY"),
        ({"smtp_user": "ada"}, "SMTP_PASSWORD"),
        ({"smtp_user": "a", "smtp_password": "b", "smtp_security": "none"}, "SMTP_SECURITY"),
        ({"smtp_user": "a", "smtp_password": "b"}, ""),
        ({"smtp_host": None, "alert_email": "ops@example.org"}, "ALERT_EMAIL"),
        ({"alert_webhook": "https://ops.example.org/", "alert_webhook_secret": SECRET}, ""),
        ({"alert_webhook": "https://ops.example.org/"}, "ALERT_WEBHOOK_SECRET"),
        ({"alert_webhook": "http://ops.example.org/", "alert_webhook_secret": SECRET}, "ALERT_WEBHOOK must"),
        ({"webhook_loopback": True}, "WEBHOOK_LOOPBACK"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changed: dict[str, Any], named: str) -> None:
    found = notifications.problems(settings(**{**MAILING, **changed}))
    assert (len(found), named in "".join(found)) == (1 if named else 0, True)
