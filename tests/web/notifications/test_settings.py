"""The notification settings page, and the e-mail setting on a job's page."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.models.notifications import Notice, NoticeWish
from tasks.ledger.notifications import preferences
from tasks.notifications.mail_templates import MAILS
from tasks.notifications.signed_links import Links
from tasks.settings import Settings
from tests.support import factories
from tests.web.conftest import Person, WebHarness, rows

HOOK = "https://ada.example.org/hook"
MAILING: dict[str, Any] = {
    "smtp_host": "127.0.0.1",
    "mail_from": "waybill@example.org",
    "app_base_url": "http://localhost",
}
PAGE = "/account/notices"


@pytest.fixture
def mailing(make_app: Callable[..., Flask]) -> Flask:
    """Return the app of a site that can send mail."""
    return make_app(**MAILING)


@pytest.fixture
def anna(mailing: Flask, account_id: uuid.UUID) -> Person:
    """Return Ada on that site."""
    return Person(mailing, account_id)


def preference(database: Database, account_id: uuid.UUID) -> NoticeWish | None:
    with database.transaction() as session:
        return preferences.preference_of(session, account_id)


def confirm_by_hand(database: Database, account_id: uuid.UUID, *, on: bool = True) -> None:
    with database.transaction() as session:
        address = session.execute(text("SELECT email FROM accounts WHERE id = :id"), {"id": account_id}).scalar_one()
        preferences.set_email(session, account_id, address, on=on)


def test_without_a_mail_server_the_choice_is_not_offered(ada: Person, bench: WebHarness) -> None:
    assert "E-mail me" not in ada.get(PAGE).text
    assert "e-mail" not in ada.get(f"/jobs/{bench.job()}").text.lower()
    assert ada.post(f"{PAGE}/email", {"on": "yes"}).status_code == 404


def test_mail_goes_out_only_after_a_link_in_a_mail_was_followed(
    anna: Person, bob: Person, database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    assert anna.post(f"{PAGE}/email", {"on": "yes"}).status_code == 303
    assert "Open the link in it" in anna.get(PAGE).text
    assert preference(database, account_id) is None, "nothing is on yet"
    with database.transaction() as session:
        (owed,) = session.execute(select(Notice)).scalars()
    assert (owed.what, owed.account_id, owed.expires_at is not None) == ("email.confirm", account_id, True)
    mail = MAILS[owed.what](owed.facts, Links(settings.model_copy(update=MAILING)))
    found = re.search(r"http://localhost(/account/notices/confirm/\S+)", mail.text)
    assert found
    link = found[1]
    assert link.rpartition("/")[2] not in str(owed.facts), "the row holds no link"

    assert bob.get(link).status_code == 303, "somebody else's link"
    assert anna.get(link).status_code == 200
    assert preference(database, account_id) is None, "a program that opens links changes nothing"
    assert anna.post(link + "x").status_code == 303
    assert preference(database, account_id) is None
    anna.get(PAGE)
    assert anna.post(link).status_code == 303
    now = preference(database, account_id)
    assert now is not None and (now.email, now.email_on) == (owed.target, True)
    assert "You get an e-mail at" in anna.get(PAGE).text

    anna.post(f"{PAGE}/email")
    anna.post(f"{PAGE}/email", {"on": "yes"})
    now = preference(database, account_id)
    assert now is not None and now.email_on, "once confirmed, no further mail is needed"
    assert len(rows(database, select(Notice.id))) == 1


def test_confirming_mails_are_not_sent_without_end(anna: Person, database: Database) -> None:
    answers = [anna.post(f"{PAGE}/email", {"on": "yes"}).status_code for _ in range(8)]
    assert answers.count(303) == 6 and answers[-1] == 429
    assert len(rows(database, select(Notice.id))) == 6


def test_the_secret_of_a_webhook_is_shown_once_and_a_new_one_can_be_had(
    ada: Person, database: Database, account_id: uuid.UUID
) -> None:
    made = ada.post(f"{PAGE}/webhook", {"url": HOOK})
    now = preference(database, account_id)
    assert now is not None and now.webhook_secret is not None
    assert made.status_code == 201 and now.webhook_secret in html.unescape(made.text)
    assert now.webhook_secret not in html.unescape(ada.get(PAGE).text)
    assert HOOK in ada.get(PAGE).text
    again = ada.post(f"{PAGE}/webhook", {"url": HOOK})
    assert now.webhook_secret not in html.unescape(again.text)
    ada.post(f"{PAGE}/webhook/remove")
    now = preference(database, account_id)
    assert now is not None and now.webhook_url is None
    assert HOOK not in ada.get(PAGE).text


def test_an_address_that_will_not_do_is_said_beside_the_field(
    ada: Person, database: Database, account_id: uuid.UUID
) -> None:
    for url, message in (
        ("http://ada.example.org/", "https://"),
        ("https://127.0.0.1/", "public internet"),
        ("https://[::ffff:10.0.0.1]/", "public internet"),
        ("https://169.254.169.254/latest", "public internet"),
        ("https://ada:secret@example.org/", "password"),
        ('"><script>alert(1)</script>', "https://"),
        ("", "https://"),
    ):
        answer = ada.post(f"{PAGE}/webhook", {"url": url})
        assert answer.status_code == 422 and message in answer.text, url
        assert "<script>alert" not in answer.text
    assert preference(database, account_id) is None


def test_a_test_is_owed_and_its_outcome_is_shown(ada: Person, database: Database, account_id: uuid.UUID) -> None:
    assert ada.post(f"{PAGE}/test", {"channel": "webhook"}).status_code == 404, "there is no webhook yet"
    ada.post(f"{PAGE}/webhook", {"url": HOOK})
    assert ada.post(f"{PAGE}/test", {"channel": "webhook"}).status_code == 303
    assert "on its way" in ada.get(PAGE).text
    for change, outcome in (
        ("error_code = 'http_500'", "status 500. We’ll try again"),
        ("error_code = 'gone', gave_up_at = now()", "we gave up, because it answered that it is gone"),
        ("error_code = NULL, gave_up_at = NULL, sent_at = now()", "sent."),
    ):
        with database.transaction() as session:
            session.execute(text(f"UPDATE notices SET {change}"))
        assert outcome in " ".join(ada.get(PAGE).text.split())
    answers = [ada.post(f"{PAGE}/test", {"channel": "webhook"}).status_code for _ in range(11)]
    assert answers[-1] == 429


def test_one_job_can_be_left_out_or_taken_in_on_its_page(
    anna: Person, bob: Person, bench: WebHarness, database: Database, account_id: uuid.UUID
) -> None:
    job = bench.job()
    address = f"/jobs/{job}/email"
    assert f'href="{PAGE}">E-mail me when it is done' in anna.get(f"/jobs/{job}").text
    confirm_by_hand(database, account_id)
    assert "You get an e-mail when it is done" in anna.get(f"/jobs/{job}").text
    assert bob.post(address, {"wanted": "no"}).status_code == 404
    assert anna.post(address, {"wanted": "no"}).status_code == 303
    assert "You get an e-mail when it is done" not in anna.get(f"/jobs/{job}").text
    anna.post(address, {"wanted": "yes"})
    assert "No e-mail for this one" in anna.get(f"/jobs/{job}").text
    assert "e-mail" not in anna.get(f"/jobs/{bench.succeeded()}").text.lower(), "there is nothing left to tell"


def test_the_icon_of_the_page_is_that_of_its_state(ada: Person, bench: WebHarness) -> None:
    for job, state in ((bench.job(), "queued"), (bench.succeeded(), "succeeded")):
        page = ada.get(f"/jobs/{job}").text
        found = re.search(r'<link rel="icon" href="([^"]+)"', page)
        assert found and f"icons/{state}.svg" in found[1]
        assert f'data-icon="{found[1]}"' in page
        icon = ada.get(html.unescape(found[1]))
        assert (icon.status_code, icon.mimetype) == (200, "image/svg+xml")
        icon.close()


def test_who_deletes_their_account_is_told_nothing_more(ada: Person, database: Database, account_id: uuid.UUID) -> None:
    from webapp.auth.passwords import hash_password

    with database.transaction() as session:
        session.execute(
            text("UPDATE accounts SET password_hash = :hash WHERE id = :id"),
            {"hash": hash_password("a good long password"), "id": account_id},
        )
    ada.post(f"{PAGE}/webhook", {"url": HOOK})
    ada.post(f"{PAGE}/test", {"channel": "webhook"})
    assert ada.post("/account/delete", {"sure": "yes", "password": "a good long password"}).status_code == 303
    with database.transaction() as session:
        assert (factories.count(session, "notices"), factories.count(session, "notice_wishes")) == (0, 0)


def test_a_webhook_that_was_switched_off_says_why_until_it_is_wanted_again(
    ada: Person, database: Database, account_id: uuid.UUID
) -> None:
    ada.post(f"{PAGE}/webhook", {"url": HOOK})
    with database.transaction() as session:
        preferences.webhook_is_gone(session, account_id, HOOK, code="gone")
    page = ada.get(PAGE).text
    assert f"{HOOK} answered 410, which means that it is gone for good. We no longer send anything there." in page
    assert "Send a test" not in page and ada.post(f"{PAGE}/test", {"channel": "webhook"}).status_code == 404
    assert 'value="https://ada.example.org/hook"' in page
    assert ada.post(f"{PAGE}/webhook", {"url": HOOK}).status_code == 201
    assert "answered 410" not in ada.get(PAGE).text
    with database.transaction() as session:
        preferences.webhook_is_gone(session, account_id, HOOK, code="gone")
    ada.post(f"{PAGE}/webhook", {"url": "https://other.example.org/"})
    assert "answered 410" not in ada.get(PAGE).text
