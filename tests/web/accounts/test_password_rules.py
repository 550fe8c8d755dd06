"""Tests which new passwords are refused, in every way to choose one; existing passwords keep working."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import pytest
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import select

from tasks.database import Database
from tests.support.mail_site import MAILING, link_in, owed_mails
from tests.web.conftest import Browser, rows
from webapp.auth import api_tokens, password_rules, passwords
from webapp.auth.password_rules import password_problem
from webapp.models import Account, ApiToken, Role

ADA = "ada.lovelace@example.org"
GOOD, OTHER = "a harbour at night", "another harbour at dawn"
TRIED_FIRST, MADE_OF_NAMES = "that attackers try first", "made of your e-mail address"
SITE = {"waybill_demo": False, "secret_key": SecretStr("a long random text of our own")}


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("password123", TRIED_FIRST),
        ("1234567890", TRIED_FIRST),
        ("qwertyuiop", TRIED_FIRST),
        ("P@ssw0rd123", TRIED_FIRST),
        ("aaaaaaaaaaaaaaaa", TRIED_FIRST),
        (ADA, MADE_OF_NAMES),
        (ADA.upper(), MADE_OF_NAMES),
        ("ada.lovelace", MADE_OF_NAMES),
        ("AdaLovelace1", MADE_OF_NAMES),
        ("waybillwaybill", MADE_OF_NAMES),
        ("Docs.Harbour.Example", MADE_OF_NAMES),
        ("docs.harbour.example12", MADE_OF_NAMES),
        ("short", "at least 10"),
        ("x" * 201, "at most 200"),
        (GOOD, None),
        (OTHER, None),
        ("Tr0ub4dor&3x", None),
        ("ada.lovelace likes a quiet harbour", None),
        ("Ходит песенка по кругу", None),
    ],
)
def test_what_strangers_try_first_is_refused_with_the_reason(
    make_app: Callable[..., Flask], password: str, said: str | None
) -> None:
    with make_app(**SITE, app_base_url="https://docs.harbour.example").test_request_context():
        fault = password_problem(password, ADA)
    assert fault is None if said is None else fault is not None and said in fault


def test_a_long_address_is_known_from_its_beginning_to_its_end(make_app: Callable[..., Flask]) -> None:
    long = f"{'ab' * 30}@{'cd' * 30}.example.org"
    with make_app(**SITE).test_request_context():
        assert MADE_OF_NAMES in str(password_problem(long, long))


@pytest.mark.parametrize("text", ["4@8({[<369&#!1/|0$5+7%2", "p4$$w0rd!", "1!|", "\u0661", "\ud800", "\0", "aA1!"])
def test_no_password_keeps_a_process_busy(app: Flask, text: str) -> None:
    with app.test_request_context():
        begun = time.thread_time()
        password_problem((text * 200)[:200], ADA)
        assert time.thread_time() - begun < 3


def test_without_the_bound_some_would(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_rules, "EVALUATED_CHARACTERS", 8)
    text = "4@8({[<369&#!1/|0$5+7%2" * 9

    def seconds() -> float:
        with app.test_request_context():
            begun = time.thread_time()
            password_problem(text[:200], ADA)
            return time.thread_time() - begun

    short = seconds()
    monkeypatch.setattr(password_rules, "EVALUATED_CHARACTERS", 48)
    assert seconds() > 10 * short


def test_the_lists_are_not_read_before_they_are_needed() -> None:
    code = "import sys, webapp, webapp.accounts.cli; sys.exit('zxcvbn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def registered(database: Database) -> uuid.UUID:
    """Create Ada's account with a password that is refused today."""
    with database.transaction() as session:
        account = Account(email=ADA, password_hash=passwords.hash_password("password123"))
        session.add(account)
        session.flush()
        return account.id


def sign_in(app: Flask, password: str = "password123") -> Browser:
    browser = Browser(app)
    assert browser.post("/login", {"email": ADA, "password": password}).status_code == 303
    browser.forget_token()
    return browser


def test_a_password_of_before_goes_on_working_and_is_no_good_as_a_new_one(
    app: Flask, registered: uuid.UUID, database: Database
) -> None:
    browser = sign_in(app)
    answer = browser.post("/account/password", {"password": "password123", "new": "password1234"}, page="/account")
    assert answer.status_code == 422 and TRIED_FIRST in answer.text
    own = browser.post("/account/password", {"password": "password123", "new": ADA}, page="/account")
    assert own.status_code == 422 and MADE_OF_NAMES in own.text
    sign_in(app)


def test_registering_and_a_reset_refuse_them_too(
    make_app: Callable[..., Flask], app: Flask, registered: uuid.UUID, database: Database
) -> None:
    form = {"email": "new@example.org", "password": "password123"}
    answer = Browser(app).post("/register", form, page="/register")
    assert answer.status_code == 422 and TRIED_FIRST in answer.text
    mailing = make_app(**MAILING)
    browser = Browser(mailing)
    browser.post("/reset", {"email": ADA}, page="/reset")
    link = link_in(mailing, owed_mails(database)[-1])
    assert TRIED_FIRST in browser.post(link, {"password": "1234567890"}).text
    assert MADE_OF_NAMES in browser.post(link, {"password": "ada.lovelace"}).text
    browser.post("/register", {"email": form["email"]}, page="/register")
    link = link_in(mailing, owed_mails(database)[-1])
    assert link.startswith("/register/")
    assert MADE_OF_NAMES in browser.post(link, {"password": form["email"]}).text
    assert len(rows(database, select(Account.id))) == 1


def test_a_terminal_refuses_them_in_one_line(
    app: Flask, registered: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = app.test_cli_runner()
    for arguments in (("create", "new@example.org"), ("password", ADA)):
        monkeypatch.setenv("ACCOUNT_PASSWORD", "1234567890")
        done = runner.invoke(args=["accounts", *arguments])
        assert done.exit_code == 1 and TRIED_FIRST in done.stderr and done.stderr.count("\n") == 1
        monkeypatch.setenv("ACCOUNT_PASSWORD", arguments[-1])
        assert MADE_OF_NAMES in runner.invoke(args=["accounts", *arguments]).stderr


@pytest.mark.parametrize(
    ("role", "ticked", "left"), [(Role.USER, False, 1), (Role.USER, True, 0), (Role.OPERATOR, False, 0)]
)
@pytest.mark.parametrize("way", ["changed", "reset by mail", "at a terminal"])
def test_a_new_password_takes_the_api_tokens_where_that_is_wanted_and_an_operators_always(
    make_app: Callable[..., Flask],
    registered: uuid.UUID,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    role: Role,
    ticked: bool,
    left: int,
    way: str,
) -> None:
    app = make_app(**MAILING)
    with database.transaction() as session:
        api_tokens.make_token(session, registered, "nightly")
        account = session.get(Account, registered)
        assert account is not None
        account.role = role
        account.email_proven_at = account.created_at
    tick = {"revoke_tokens": "yes"} if ticked else {}
    offered = "Revoke my API token too" if role is Role.USER else "since you are an operator"
    if way == "changed":
        browser = sign_in(app)
        assert offered in browser.get("/account").text
        browser.post("/account/password", {"password": "password123", "new": OTHER, **tick}, page="/account")
        said = browser.get("/account").text
    elif way == "reset by mail":
        browser = Browser(app)
        browser.post("/reset", {"email": ADA}, page="/reset")
        link = link_in(app, owed_mails(database)[-1])
        assert offered in browser.get(link).text
        assert browser.post(link, {"password": OTHER, **tick}).status_code == 303
        said = browser.get("/login").text
    else:
        monkeypatch.setenv("ACCOUNT_PASSWORD", OTHER)
        flags = ["--revoke-tokens"] if ticked else []
        done = app.test_cli_runner().invoke(args=["accounts", "password", ADA, *flags])
        assert done.exit_code == 0
        said = done.stdout
    assert len(rows(database, select(ApiToken.id))) == left
    assert ("revoked" in said) == (left == 0)
    sign_in(app, OTHER)


def test_without_tokens_nothing_is_offered(app: Flask, registered: uuid.UUID) -> None:
    assert 'name="revoke_tokens"' not in sign_in(app).get("/account").text
