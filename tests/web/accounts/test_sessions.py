"""Tests that the server knows each session: an ended one is over, even for copies of its cookie."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import func, select, text

from tasks.database import Database
from tests.web.conftest import Browser, Person, WebHarness, poll_address, rows
from webapp.auth import passwords, sessions
from webapp.models import Account, BrowserSession

PASSWORD = "a harbour at night"
ADA = "ada@example.org"


@pytest.fixture
def registered(app: Flask, database: Database) -> None:
    with database.transaction() as session:
        session.add(Account(email=ADA, password_hash=passwords.hash_password(PASSWORD)))


def signed_in(app: Flask) -> Browser:
    browser = Browser(app)
    assert browser.post("/login", {"email": ADA, "password": PASSWORD}).status_code == 303
    browser.forget_token()
    return browser


def copy_of(browser: Browser, app: Flask) -> Browser:
    """Return another browser with the same cookie."""
    cookie = browser.client.get_cookie("session")
    assert cookie is not None
    thief = Browser(app)
    thief.client.set_cookie("session", cookie.value)
    return thief


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account").status_code == 200


@pytest.mark.parametrize(("path", "page"), [("/logout", "/account"), ("/account/sessions/end", "/account")])
def test_a_copied_cookie_is_worthless_after_signing_out(app: Flask, registered: None, path: str, page: str) -> None:
    browser = signed_in(app)
    thief = copy_of(browser, app)
    assert is_signed_in(thief), "until then it is as good as the first one"
    assert browser.post(path, page=page).status_code == 303
    assert not is_signed_in(thief) and not is_signed_in(browser)


def test_it_is_the_missing_row_that_makes_it_worthless(app: Flask, registered: None, database: Database) -> None:
    browser = signed_in(app)
    thief = copy_of(browser, app)
    with database.transaction() as session:
        row = dict(session.execute(text("SELECT id, account_id, stamp FROM sessions")).mappings().one())
    browser.post("/logout", page="/account")
    assert not is_signed_in(thief)
    with database.transaction() as session:
        session.execute(text("INSERT INTO sessions (id, account_id, stamp) VALUES (:id, :account_id, :stamp)"), row)
    assert is_signed_in(thief)


def test_signing_out_here_leaves_the_others(app: Flask, registered: None) -> None:
    here, elsewhere = signed_in(app), signed_in(app)
    here.post("/logout", page="/account")
    assert is_signed_in(elsewhere)


def test_signing_in_again_ends_the_session_that_was_in_this_browser(
    app: Flask, registered: None, database: Database
) -> None:
    browser = signed_in(app)
    thief = copy_of(browser, app)
    browser.client.post("/login", data={"csrf_token": browser.token("/account"), "email": ADA, "password": PASSWORD})
    assert is_signed_in(browser) and not is_signed_in(thief)
    assert len(rows(database, select(BrowserSession.id))) == 1


def test_a_session_of_one_account_does_not_open_another(app: Flask, ada: Person, bob: Person) -> None:
    with ada.client.session_transaction() as session:
        session["_user_id"] = bob.id.hex
    assert not is_signed_in(ada)


def test_a_session_ends_by_its_age_also_where_its_cookie_is_kept(ada: Person, database: Database) -> None:
    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET seen_at = now() - interval '14 days 23 hours'"))
    ada.get("/healthz")
    assert is_signed_in(ada), "the day it was last used has 24 hours"
    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET seen_at = now() - interval '15 days 1 minute'"))
    assert not is_signed_in(ada)


def test_what_is_over_is_forgotten_at_the_next_sign_in_of_anybody(
    app: Flask, registered: None, database: Database, ada: Person, bob: Person
) -> None:
    with database.transaction() as session:
        session.execute(
            text("UPDATE sessions SET seen_at = now() - interval '16 days' WHERE account_id = :id"), {"id": bob.id}
        )
    signed_in(app)
    left = [account for (account,) in rows(database, select(BrowserSession.account_id))]
    assert bob.id not in left and ada.id in left


def test_an_account_has_so_many_sessions_and_the_oldest_ends(
    app: Flask, registered: None, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    browsers = [signed_in(app) for _ in range(5)]
    assert [is_signed_in(browser) for browser in browsers] == [False, False, True, True, True]
    assert len(rows(database, select(BrowserSession.id))) == 3


def test_a_page_extends_the_session_once_a_day_and_a_poll_writes_nothing(
    ada: Person, bench: WebHarness, database_statements: list[str]
) -> None:
    def extensions() -> int:
        return sum(statement.startswith("UPDATE sessions") for statement in database_statements)

    job_id = bench.job()
    poll = poll_address(ada.get(f"/jobs/{job_id}").text)
    with ada.client.session_transaction() as session:
        session["day"] = "2001-01-01"  # a page would extend it now
    database_statements.clear()
    assert ada.get(poll, headers={"HX-Request": "true"}).status_code == 204
    assert [statement.partition(" ")[0] for statement in database_statements] == ["SELECT"]
    ada.get(f"/jobs/{job_id}")
    assert extensions() == 1
    ada.get(f"/jobs/{job_id}")
    assert extensions() == 1


def test_a_page_prolongs_the_session_and_no_session_that_is_over(ada: Person, database: Database) -> None:
    def age() -> int:
        return int(rows(database, select(func.extract("epoch", func.now() - BrowserSession.seen_at)))[0][0])

    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET seen_at = now() - interval '10 days'"))
    ada.get("/")
    assert age() < 60
    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET seen_at = now() - interval '20 days'"))
    with ada.client.session_transaction() as session:
        session["day"] = "2001-01-01"
    assert ada.get("/").status_code == 302 and age() > 60
