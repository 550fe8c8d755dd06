"""Tests that strangers who guess, or request mails, slow down themselves but never the owner in a known browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import func, select

from tasks.database import Database
from tasks.ledger.models.notifications import Notice
from tests.support.mail_site import MAILING, link_in, owed_mails
from tests.web.conftest import Browser, recorded_statements, rows
from webapp.auth import attempt_limits, known_devices, passwords
from webapp.models import Account

PASSWORD, OTHER = "a harbour at night", "another harbour at dawn"
ADA, BOB = "ada@example.org", "bob@example.org"


@pytest.fixture
def site(make_app: Callable[..., Flask], database: Database) -> Flask:
    with database.transaction() as session:
        for email in (ADA, BOB):
            session.add(Account(email=email, password_hash=passwords.hash_password(PASSWORD)))
    return make_app(**MAILING)


def at(address: str) -> dict[str, object]:
    return {"environ_base": {"REMOTE_ADDR": address}}


def sign_in(browser: Browser, password: str, client: str = "10.0.0.1", email: str = ADA) -> int:
    browser.forget_token()
    return browser.post("/login", {"email": email, "password": password}, **at(client)).status_code


def known(site: Flask, email: str = ADA) -> Browser:
    """Return a browser in which the account was signed in, and signed out again."""
    browser = Browser(site)
    assert sign_in(browser, PASSWORD, "10.9.9.9", email) == 303
    browser.forget_token()
    assert browser.post("/logout", page="/account").status_code == 303
    return browser


def guess_from_everywhere(site: Flask, email: str = ADA) -> list[int]:
    """Send as many wrong passwords as the site allows, from as many clients as that takes."""
    stranger = Browser(site)
    return [sign_in(stranger, f"guess {number}", f"10.1.{number // 10}.1", email) for number in range(101)]


def test_a_strangers_guesses_stop_the_stranger_and_nobody_else(site: Flask) -> None:
    stranger = Browser(site)
    assert [sign_in(stranger, "guess") for _ in range(11)] == [401] * 10 + [429]
    assert sign_in(Browser(site), PASSWORD, "10.0.0.2") == 303, "not known, but elsewhere"


def test_counted_by_the_address_alone_the_owner_would_be_locked_out(
    site: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the test can fail: without the client in the key, the owner would be locked out."""
    monkeypatch.setattr(attempt_limits, "client_address", lambda: "anywhere")
    for _ in range(10):
        sign_in(Browser(site), "guess")
    assert sign_in(Browser(site), PASSWORD, "10.0.0.2") == 429


def test_guesses_from_many_clients_are_bounded_and_a_known_browser_goes_on(site: Flask) -> None:
    hers, never_seen = known(site), Browser(site)
    assert guess_from_everywhere(site) == [401] * 100 + [429]
    assert sign_in(never_seen, PASSWORD, "10.0.0.7") == 429
    response = never_seen.post("/login", {"email": ADA, "password": PASSWORD}, **at("10.0.0.7"))
    assert (
        "from several places" in response.text
        and "reset your password by e-mail" in response.text
        and 'href="/reset"' in response.text
    )
    assert sign_in(hers, PASSWORD, "10.1.0.1") == 303, "also from the address of a stranger"


def test_without_its_cookie_the_known_browser_would_be_refused(site: Flask) -> None:
    hers = known(site)
    guess_from_everywhere(site)
    hers.client.delete_cookie("device")
    assert sign_in(hers, PASSWORD) == 429


@pytest.mark.thorough
def test_an_unknown_address_is_limited_in_the_same_way_and_words(site: Flask) -> None:
    """Ensure that the limit does not reveal who has an account."""
    assert guess_from_everywhere(site, "who@example.org") == [401] * 100 + [429]
    response = Browser(site).post("/login", {"email": "who@example.org", "password": "guess"}, **at("10.0.0.7"))
    assert response.status_code == 429 and "from several places" in response.text


def test_a_new_password_by_mail_opens_the_browser_it_was_chosen_in(site: Flask, database: Database) -> None:
    guess_from_everywhere(site)
    owner = Browser(site)
    owner.post("/reset", {"email": ADA}, page="/reset")
    link = link_in(site, owed_mails(database)[-1])
    assert owner.post(link, {"password": OTHER}).status_code == 303
    assert sign_in(owner, OTHER) == 303
    assert sign_in(Browser(site), OTHER) == 429


def test_a_known_browser_may_not_guess_more_than_another(site: Flask) -> None:
    hers = known(site)
    assert [sign_in(hers, "guess", f"10.2.0.{number}") for number in range(11)] == [401] * 10 + [429]
    assert sign_in(hers, PASSWORD) == 429, "its own attempts count"


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["another account's", "made up", "of an older password", "signed with another key"])
def test_a_cookie_that_is_not_the_accounts_own_makes_nothing_known(
    site: Flask, make_app: Callable[..., Flask], database: Database, how: str
) -> None:
    hers = known(site, BOB if how == "another account's" else ADA)
    if how == "made up":
        hers.client.set_cookie("device", "W10.made-up")
    elif how == "of an older password":
        with database.transaction() as session:
            session.execute(Account.__table__.update().values(session_stamp=Account.session_stamp + 1))
    elif how == "signed with another key":
        site = make_app(**MAILING, secret_key=SecretStr("another key that is long enough"))
        cookie = hers.client.get_cookie("device")
        assert cookie is not None
        hers = Browser(site)
        hers.client.set_cookie("device", cookie.value)
    guess_from_everywhere(site)
    assert sign_in(hers, PASSWORD) == 429


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "status"), [(2, 303), (1, 429)])
def test_several_people_are_known_in_one_browser_but_not_any_number(
    site: Flask, monkeypatch: pytest.MonkeyPatch, limit: int, status: int
) -> None:
    monkeypatch.setattr(known_devices, "MAX_ACCOUNTS", limit)
    shared = known(site)
    assert sign_in(shared, PASSWORD, email=BOB) == 303
    shared.client.delete_cookie("session")
    guess_from_everywhere(site)
    assert sign_in(shared, PASSWORD) == status


def test_signing_out_everywhere_leaves_this_browser_known_and_no_other(site: Flask) -> None:
    elsewhere, here = known(site), Browser(site)
    assert sign_in(here, PASSWORD) == 303
    here.forget_token()
    assert here.post("/account/sessions/end", page="/account").status_code == 303
    guess_from_everywhere(site)
    assert [sign_in(here, PASSWORD), sign_in(elsewhere, PASSWORD)] == [303, 429]


def test_the_cookie_of_a_real_site_is_locked_down(make_app: Callable[..., Flask], database: Database) -> None:
    with database.transaction() as session:
        session.add(Account(email=ADA, password_hash=passwords.hash_password(PASSWORD)))
    real = Browser(make_app(waybill_demo=False, secret_key=SecretStr("a long random text of our own")))
    https = {"base_url": "https://waybill.example", "headers": {"Referer": "https://waybill.example/login"}}
    page = real.get("/login", base_url="https://waybill.example").text
    csrf_token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    answer = real.client.post("/login", data={"csrf_token": csrf_token, "email": ADA, "password": PASSWORD}, **https)
    assert answer.status_code == 303
    [cookie] = [one for one in answer.headers.getlist("Set-Cookie") if "device" in one]
    for part in ("__Host-device=", "Secure", "HttpOnly", "Path=/", "SameSite=Lax", "Max-Age=34560000"):
        assert part in cookie
    assert "Domain" not in cookie and ADA not in cookie
    failed = real.client.post("/login", data={"csrf_token": csrf_token, "email": ADA, "password": "guess"}, **https)
    assert not [one for one in failed.headers.getlist("Set-Cookie") if "device" in one]


def ask(browser: Browser, client: str, email: str = ADA, path: str = "/reset") -> int:
    browser.forget_token()
    return browser.post(path, {"email": email}, page=path, **at(client)).status_code


@pytest.mark.parametrize("path", ["/reset", "/register"])
def test_mails_that_a_stranger_asks_for_stop_neither_the_owner_nor_their_mails(
    site: Flask, database: Database, path: str
) -> None:
    hers, stranger = known(site), Browser(site)
    assert [ask(stranger, "10.0.0.1", path=path) for _ in range(6)] == [200] * 5 + [429]
    assert ask(Browser(site), "10.0.0.2", path=path) == 200
    assert len(owed_mails(database)) == 6, "a stranger's five, and hers"
    for number in range(3, 30):
        assert ask(stranger, f"10.0.0.{number}", path=path) == 200
    assert len(owed_mails(database)) == 10, "no more are sent to one address in an hour"
    assert ask(hers, "10.0.0.1", path=path) == 200
    assert len(owed_mails(database)) == 11, "but from a known browser, whatever strangers do"
    assert sign_in(Browser(site), PASSWORD, "10.0.0.2") == 303
    assert rows(database, select(func.count()).select_from(Notice))[0][0] > 30, "as much work for what is not sent"


def test_a_link_that_was_sent_before_is_good_while_no_more_are_sent(site: Flask, database: Database) -> None:
    for number in range(30):
        ask(Browser(site), f"10.0.0.{number}")
    assert len(owed_mails(database)) == 10
    owner = Browser(site)
    assert owner.post(link_in(site, owed_mails(database)[0]), {"password": OTHER}).location == "/login"
    assert sign_in(owner, OTHER) == 303


def test_what_is_not_sent_is_answered_like_the_rest(site: Flask, database: Database) -> None:
    from tests.web.accounts.test_sign_in import without_token

    seen = []
    for number in range(12):
        browser = Browser(site)
        browser.token("/reset")
        with recorded_statements(site) as sent:
            answer = browser.post("/reset", {"email": ADA}, **at(f"10.3.0.{number}"))
        seen.append((answer.status_code, without_token(answer.text), [each.split("(")[0] for each in sent]))
    assert len(owed_mails(database)) == 10
    assert seen[0] == seen[-1]
