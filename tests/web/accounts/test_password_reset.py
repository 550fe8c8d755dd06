"""Tests the password reset, and that asking for one reveals nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.models.notifications import Channel, Notice
from tasks.ledger.notifications import outbox, preferences
from tests.support import factories
from tests.support.fakes.mail_and_webhook_servers import mail_receiver
from tests.support.mail_site import BASE, MAILING, link_in, owed_mails
from tests.support.processes.processes import worker
from tests.web.accounts.test_sign_in import without_token
from tests.web.conftest import Browser, proof_in, recorded_statements, rows
from webapp.auth import api_tokens, passwords
from webapp.models import Account, ApiToken

PASSWORD = "a harbour at night"
OTHER = "another harbour at dawn"
ADA = "ada@example.org"


@pytest.fixture
def mailing(make_app: Callable[..., Flask], database: Database) -> Flask:
    """Create a site that can send mail, with Ada's account."""
    with database.transaction() as session:
        session.add(Account(email=ADA, password_hash=passwords.hash_password(PASSWORD)))
    return make_app(**MAILING)


@pytest.fixture
def somebody(mailing: Flask) -> Browser:
    return Browser(mailing)


def ask(browser: Browser, email: str = ADA, **more):
    return browser.post("/reset", {"email": email}, page="/reset", **more)


def asked(browser: Browser, app: Flask, database: Database) -> str:
    """Return the path of the link in the mail."""
    assert ask(browser).status_code == 200
    return link_in(app, owed_mails(database)[-1])


def sign_in(browser: Browser, password: str) -> int:
    browser.forget_token()
    return browser.post("/login", {"email": ADA, "password": password}).status_code


def test_without_a_mail_server_it_is_not_offered(browser: Browser) -> None:
    assert "/reset" not in browser.get("/login").text
    assert browser.get("/reset").status_code == 404
    assert browser.post("/reset", {"email": ADA}).status_code == 404
    assert browser.client.post("/reset", data={"email": ADA}).status_code == 404
    assert browser.get("/reset/made-up").status_code == 404


def test_a_link_by_mail_leads_to_a_new_password_once(mailing: Flask, somebody: Browser, database: Database) -> None:
    elsewhere = Browser(mailing)
    assert sign_in(elsewhere, PASSWORD) == 303
    assert 'href="/reset"' in somebody.get("/login").text
    link, second = asked(somebody, mailing, database), asked(somebody, mailing, database)
    page = somebody.get(link)
    assert page.status_code == 200 and ADA in page.text
    assert elsewhere.get("/account").status_code == 200, "a program that opens links changes nothing"
    assert somebody.post(link, {"password": "short"}).status_code == 422
    answer = somebody.post(link, {"password": OTHER})
    assert (answer.status_code, answer.location) == (303, "/login")
    assert "signed out everywhere" in somebody.get("/login").text
    assert elsewhere.get("/account").status_code == 302
    assert [sign_in(Browser(mailing), PASSWORD), sign_in(Browser(mailing), OTHER)] == [401, 303]
    for used in (link, second):
        assert somebody.get(used).location == "/reset"
        assert "has been used" in somebody.get("/reset").text
        somebody.forget_token()
        assert somebody.post(used, {"password": PASSWORD}).location == "/reset"
    assert sign_in(Browser(mailing), OTHER) == 303
    assert owed_mails(database)[-1].what == "password.changed"


@pytest.mark.thorough
def test_a_real_worker_sends_the_mail_and_its_link_sets_a_new_password(
    make_app: Callable[..., Flask], addresses: dict[str, str], database: Database
) -> None:
    key = "a key of the site's own, which web and worker share"
    with database.transaction() as session:
        session.add(Account(email=ADA, password_hash=passwords.hash_password(PASSWORD)))
    with mail_receiver() as mailbox:
        ours = {**MAILING, "smtp_port": mailbox.port, "smtp_security": "none", "secret_key": key}
        site = make_app(**{**ours, "secret_key": SecretStr(key)})
        with worker(addresses, **{name.upper(): value for name, value in ours.items()}) as sender:
            assert ask(Browser(site)).status_code == 200
            factories.wait_until(lambda: mailbox.received, within=45, what=lambda: sender.log)
            [mail] = mailbox.received
            assert (mail["To"], mail["From"]) == (ADA, MAILING["mail_from"])
            [link] = re.findall(rf"{BASE}(/reset/\S+)", mail.get_content())
            somebody = Browser(site)
            assert ADA in somebody.get(link).text
            assert somebody.post(link, {"password": OTHER}).location == "/login"
            sent = select(Notice.id).where(Notice.sent_at.is_not(None))
            factories.wait_until(lambda: len(rows(database, sent)) == 2, within=45, what=lambda: sender.log)
            assert len(mailbox.received) == 2, "the second says that the password was changed"
            assert link.rpartition("/")[2] not in sender.log and ADA not in sender.log
    assert [sign_in(Browser(site), PASSWORD), sign_in(Browser(site), OTHER)] == [401, 303]


def test_two_browsers_with_one_link_change_it_once(mailing: Flask, somebody: Browser, database: Database) -> None:
    link = asked(somebody, mailing, database)
    both = [Browser(mailing), Browser(mailing)]
    for browser in both:
        browser.token("/login")
    answers = factories.all_at_once(
        [
            lambda: both[0].post(link, {"password": OTHER}).location,
            lambda: both[1].post(link, {"password": OTHER + "!"}).location,
        ]
    )
    assert sorted(answers) == ["/login", "/reset"]
    assert rows(database, select(Account.session_stamp)) == [(1,)]


def test_a_link_dies_after_an_hour_and_is_good_for_nothing_else(
    mailing: Flask, somebody: Browser, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = asked(somebody, mailing, database)
    token = link.rpartition("/")[2]
    for wrong in (f"{link}x", f"/reset/{token[:-3]}", f"/register/{token}"):
        assert somebody.get(wrong).status_code == 303, wrong
        assert somebody.post(wrong, {"password": OTHER}).status_code == 303
    assert somebody.get(link).status_code == 200
    monkeypatch.setattr("webapp.accounts.password_reset.LINK_LIVES_SECONDS", -1)
    assert somebody.post(link, {"password": OTHER}).location == "/reset"
    assert sign_in(Browser(mailing), PASSWORD) == 303


@pytest.mark.parametrize("path", ["/reset", "/register"])
def test_a_known_and_an_unknown_address_get_the_same_answer_after_the_same_work(
    mailing: Flask, somebody: Browser, path: str
) -> None:
    somebody.token(path)
    seen = []
    for email in (ADA, "eve@example.org"):
        with recorded_statements(mailing) as sent:
            answer = somebody.post(path, {"email": email})
        said = [statement.split("(")[0] for statement in sent]
        headers = {name: value for name, value in answer.headers.items() if name != "Set-Cookie"}
        seen.append((answer.status_code, without_token(answer.text.replace(email, "")), headers, said))
        assert "INSERT INTO notices " in said
    assert seen[0] == seen[1]


def test_nothing_is_sent_to_an_address_without_an_account_nor_kept_of_it(
    somebody: Browser, database: Database, settings
) -> None:
    ask(somebody, "who@example.org")
    assert owed_mails(database) == []
    with database.transaction() as session:
        assert outbox.take_due(session, queue=settings.queue_name, channel=Channel.EMAIL, limit=9) == []
        (row,) = session.execute(select(Notice)).scalars()
        assert "who" not in f"{row.key} {row.target} {row.facts}"
        assert outbox.delete_sent(session, queue=settings.queue_name, older_than_seconds=0) == 1


def test_asking_is_limited_for_one_address_and_for_one_asker(somebody: Browser, database: Database) -> None:
    answers = [ask(somebody).status_code for _ in range(6)]
    assert answers == [200] * 5 + [429]
    assert "You can try again at" in ask(somebody).text
    others = [ask(somebody, f"a{number}@example.org").status_code for number in range(27)]
    assert others[0] == 200 and others[-1] == 429
    assert len(owed_mails(database)) == 5


def test_a_link_never_leads_to_the_host_that_a_request_names(
    mailing: Flask, somebody: Browser, database: Database
) -> None:
    evil = {"base_url": "http://evil.example", "headers": {"X-Forwarded-Host": "worse.example"}}
    csrf_token = proof_in(somebody.get("/reset", **evil).text)
    answer = somebody.client.post("/reset", data={"email": ADA, "csrf_token": csrf_token}, **evil)
    assert answer.status_code == 200 and "evil" not in answer.text
    (owed,) = owed_mails(database)
    assert "evil" not in str(owed.facts)
    assert link_in(mailing, owed).startswith("/reset/"), "after the address that the settings name"


def test_whoever_registered_with_a_strangers_address_has_no_way_in_left(
    mailing: Flask, somebody: Browser, database: Database
) -> None:
    with database.transaction() as session:
        account_id = session.execute(select(Account.id)).scalar_one()
        api_tokens.make_token(session, account_id, "the stranger's")
        preferences.set_webhook(session, account_id, "https://stranger.example/hook")
    somebody.post(asked(somebody, mailing, database), {"password": OTHER})
    assert "API tokens" in somebody.get("/login").text
    assert rows(database, select(ApiToken.id)) == []
    with database.transaction() as session:
        wish = preferences.preference_of(session, account_id)
        assert wish is not None and wish.webhook_url is None
        api_tokens.make_token(session, account_id, "her own")
    again = Browser(mailing)
    again.post(asked(again, mailing, database), {"password": PASSWORD})
    assert len(rows(database, select(ApiToken.id))) == 1, "now that the address is proven to be hers"


def test_an_account_that_is_gone_has_no_link(mailing: Flask, somebody: Browser, database: Database) -> None:
    link = asked(somebody, mailing, database)
    with database.transaction() as session:
        session.execute(text("DELETE FROM accounts"))
    assert somebody.get(link).location == "/reset"
