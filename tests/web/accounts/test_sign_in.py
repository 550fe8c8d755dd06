from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select

from tasks.database import Database
from tests.support import factories
from tests.web.conftest import Browser, Person, proof_in, rows
from webapp.auth import passwords
from webapp.http.security import safe_next
from webapp.models import Account, ApiToken

PASSWORD = "a harbour at night"


@pytest.fixture
def registered(database: Database) -> str:
    with database.transaction() as session:
        account = Account(email="ada@example.org", password_hash=passwords.hash_password(PASSWORD))
        session.add(account)
    return "ada@example.org"


def sign_in(browser: Browser, email: str, password: str = PASSWORD, **fields: str):
    return browser.post("/login", {"email": email, "password": password, **fields})


def test_registering_makes_an_account_and_signs_in(browser: Browser, database: Database) -> None:
    answer = browser.post("/register", {"email": " Ada@Example.ORG ", "password": PASSWORD}, page="/register")
    assert (answer.status_code, answer.location) == (303, "/")
    assert "My documents" in browser.get("/").text
    [(email, stored)] = rows(database, select(Account.email, Account.password_hash))
    assert email == "ada@example.org"
    assert stored.startswith("$argon2id$") and PASSWORD not in stored


@pytest.mark.parametrize(
    ("email", "password", "message"),
    [
        ("nobody", PASSWORD, "not a complete e-mail address"),
        ("", PASSWORD, "not a complete e-mail address"),
        ("a\0b@example.org", PASSWORD, "not a complete e-mail address"),
        ("x" * 5000 + "@example.org", PASSWORD, "not a complete e-mail address"),
        ("new@example.org", "123456789", "at least 10"),
        ("new@example.org", "x" * 201, "at most 200"),
        ("ada@example.org", PASSWORD, "already an account with this address"),
        ("ADA@example.org", PASSWORD, "already an account with this address"),
    ],
)
def test_a_registration_that_will_not_do_is_refused_in_words(
    browser: Browser, registered: str, database: Database, email: str, password: str, message: str
) -> None:
    answer = browser.post("/register", {"email": email, "password": password}, page="/register")
    assert answer.status_code == 422
    assert message in answer.text
    assert len(rows(database, select(Account.id))) == 1


@pytest.mark.parametrize(("registration", "shown", "posted"), [("invite", 200, 403), ("closed", 404, 403)])
def test_registration_can_be_shut(
    make_app: Callable[..., Flask], database: Database, registration: str, shown: int, posted: int
) -> None:
    browser = Browser(make_app(registration=registration))
    page = browser.get("/register")
    assert page.status_code == shown and "Registration is" in page.text and "password" not in page.text
    assert browser.post("/register", {"email": "a@example.org", "password": PASSWORD}).status_code == posted
    assert not rows(database, select(Account.id))


def test_signing_in_leads_on_to_where_one_was(browser: Browser, registered: str) -> None:
    away = browser.get("/account")
    assert (away.status_code, away.location) == (302, "/login?next=/account")
    page = browser.get(away.location)
    assert 'name="next" value="/account"' in page.text
    answer = sign_in(browser, registered, next="/account")
    assert (answer.status_code, answer.location) == (303, "/account")
    assert registered in browser.get("/account").text


def test_signing_in_clears_what_was_in_the_session_before(browser: Browser, registered: str) -> None:
    browser.token("/login")
    with browser.client.session_transaction() as session:
        session["planted"] = "by somebody else"
        before = session["csrf_token"]
    assert sign_in(browser, registered).status_code == 303
    with browser.client.session_transaction() as session:
        assert "planted" not in session
        assert session.get("csrf_token") != before


@pytest.mark.parametrize("way", ["signing in", "registering"])
def test_a_session_that_somebody_planted_opens_nothing_afterwards(
    app: Flask, browser: Browser, registered: str, way: str
) -> None:
    """Check that a stranger who planted a cookie in the victim's browser gains nothing from the victim's sign-in."""
    browser.token("/login")
    planted = browser.client.get_cookie("session")
    assert planted is not None
    if way == "signing in":
        assert sign_in(browser, registered).status_code == 303
    else:
        assert browser.post("/register", {"email": "eve@example.org", "password": PASSWORD}).status_code == 303
    fresh = browser.client.get_cookie("session")
    assert fresh is not None and fresh.value != planted.value
    stranger = app.test_client()
    stranger.set_cookie("session", planted.value)
    assert stranger.get("/account").status_code == 302
    old_proof = browser.client.post("/account/tokens", data={"csrf_token": browser._token, "name": "x"})
    assert old_proof.status_code == 400, "nor does a proof of origin from before count"


def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(browser: Browser, registered: str) -> None:
    sign_in(browser, "first@example.org", "-")  # the first account is given the session that it starts
    wrong = sign_in(browser, registered, "not the password")
    unknown = sign_in(browser, "who@example.org", "not the password")
    assert wrong.status_code == unknown.status_code == 401
    assert without_token(wrong.text.replace(registered, "")) == without_token(
        unknown.text.replace("who@example.org", "")
    )
    headers = [{**answer.headers, "Content-Length": "", "Date": ""} for answer in (wrong, unknown)]
    assert headers[0] == headers[1]


def without_token(page: str) -> str:
    """Return the page without its CSRF token, which contains the second it was created in."""
    return re.sub(r'name="csrf_token" value="[^"]*"', "", page)


def test_as_much_work_is_done_for_an_unknown_address(
    browser: Browser, registered: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []
    real = passwords._hasher

    class Counting:
        def hash(self, password: str) -> str:
            return real.hash(password)

        def verify(self, stored: str, password: str) -> bool:
            verified.append(stored.rsplit("$", 2)[0])  # the parameters, without salt and hash
            return real.verify(stored, password)

    with database.transaction() as session:
        factories.make_account(session, email="elsewhere@example.org")  # signs in with a service, and has no password
    monkeypatch.setattr(passwords, "_hasher", Counting())
    for email in (registered, "who@example.org", "elsewhere@example.org"):
        assert sign_in(browser, email, "not the password").status_code == 401
    assert len(verified) == 3 and len(set(verified)) == 1


def test_an_old_hash_is_renewed_at_sign_in(browser: Browser, database: Database) -> None:
    from argon2 import PasswordHasher

    old = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    with database.transaction() as session:
        session.add(Account(email="old@example.org", password_hash=old))
    assert sign_in(browser, "old@example.org").status_code == 303
    [(stored,)] = rows(database, select(Account.password_hash))
    assert stored != old and passwords.verify(PASSWORD, stored)


@pytest.mark.parametrize(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/a\\b",
        "/a\nb",
        "",
        "x",
        "/" * 3,
    ],
)
def test_next_never_leads_off_the_site(browser: Browser, registered: str, address: str) -> None:
    assert safe_next(address) is None
    answer = sign_in(browser, registered, next=address)
    assert (answer.status_code, answer.location) == (303, "/")


def test_signing_out_needs_a_post_and_ends_the_session(ada: Person) -> None:
    assert ada.get("/logout").status_code == 405
    assert ada.post("/logout").status_code == 303
    assert ada.get("/account").status_code == 302


def test_guessing_one_account_is_stopped_and_the_page_says_until_when(browser: Browser, registered: str) -> None:
    for _ in range(10):
        assert sign_in(browser, registered, "guess").status_code == 401
    answer = sign_in(browser, registered)
    assert answer.status_code == 429
    assert "You can try again at" in answer.text
    assert 0 < int(answer.headers["Retry-After"]) <= 601
    assert sign_in(browser, "other@example.org", "guess").status_code == 401


def test_guessing_at_an_unknown_address_is_stopped_in_the_same_way(browser: Browser) -> None:
    """Ensure that the limit does not reveal who has an account."""
    answers = [sign_in(browser, "who@example.org", "guess") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert "You can try again at" in answers[-1].text


def test_guessing_many_accounts_from_one_address_is_stopped(browser: Browser) -> None:
    for number in range(100):
        sign_in(browser, f"a{number}@example.org", "")
    assert sign_in(browser, "last@example.org", "guess").status_code == 429


def test_a_made_up_forwarded_address_does_not_get_around_the_limit(browser: Browser, registered: str) -> None:
    for number in range(100):
        browser.post("/login", {"email": f"a{number}@x.org"}, headers={"X-Forwarded-For": f"10.0.0.{number}"})
    answer = browser.post("/login", {"email": registered}, headers={"X-Forwarded-For": "10.9.9.9"})
    assert answer.status_code == 429


def test_right_sign_ins_do_not_count_against_the_account(browser: Browser, registered: str) -> None:
    for _ in range(12):
        assert sign_in(browser, registered).status_code == 303
        browser.client.delete_cookie("session")
        browser.forget_token()


def test_no_address_is_told_to_redis(browser: Browser, registered: str, queue) -> None:
    sign_in(browser, registered, "guess")
    keys = queue.connection.keys("*")
    assert keys and not any(b"ada" in key or b"example" in key for key in keys)


def test_the_session_cookie_of_a_real_site_is_locked_down(make_app: Callable[..., Flask], settings) -> None:
    app = make_app(waybill_demo=False, secret_key=type(settings.database_url)("a long random text of our own"))
    cookie = Browser(app).get("/login", base_url="https://waybill.example").headers["Set-Cookie"]
    for part in ("__Host-session=", "Secure", "HttpOnly", "Path=/", "SameSite=Lax"):
        assert part in cookie
    assert "Domain" not in cookie


def test_a_poll_does_not_prolong_the_session_and_a_page_does_once_a_day(ada: Person, bench) -> None:
    job_id = bench.job()
    ada.token("/account")
    with ada.client.session_transaction() as session:
        session["day"] = "2001-01-01"
    assert "Set-Cookie" not in ada.get(f"/jobs/{job_id}/status?rev=0", headers={"HX-Request": "true"}).headers
    assert "Set-Cookie" in ada.get("/").headers
    assert "Set-Cookie" not in ada.get("/").headers


def test_an_api_token_is_shown_once_and_can_be_revoked(ada: Person, database: Database) -> None:
    shown = ada.post("/account/tokens", {"name": "nightly <b>"})
    assert shown.status_code == 201
    token = shown.text.partition("<code data-copy-text>")[2].partition("<")[0]
    assert token.startswith("wb_") and "nightly &lt;b&gt;" in shown.text
    again = ada.get("/account").text
    assert token not in again and "nightly" in again
    [(identity, stored)] = rows(database, select(ApiToken.id, ApiToken.token_hash))
    assert token not in stored
    assert ada.post(f"/account/tokens/{identity}/revoke").status_code == 303
    assert not rows(database, select(ApiToken.id))


def test_somebody_elses_token_cannot_be_revoked(ada: Person, bob: Person, database: Database) -> None:
    ada.post("/account/tokens", {"name": "mine"})
    [(identity,)] = rows(database, select(ApiToken.id))
    assert bob.post(f"/account/tokens/{identity}/revoke").status_code == 404
    assert len(rows(database, select(ApiToken.id))) == 1


@pytest.mark.parametrize("name", ["", "   ", "\0\x01"])
def test_a_token_needs_a_name(ada: Person, database: Database, name: str) -> None:
    assert ada.post("/account/tokens", {"name": name}).status_code == 422
    assert not rows(database, select(ApiToken.id))


@pytest.mark.parametrize("path", ["/login", "/register"])
def test_a_form_that_is_too_old_comes_back_with_the_address(browser: Browser, path: str) -> None:
    answer = browser.client.post(path, data={"csrf_token": "old", "email": "ada@example.org", "password": PASSWORD})
    assert answer.status_code == 400
    assert 'value="ada@example.org"' in answer.text and "Send it again" in answer.text and PASSWORD not in answer.text
    proof_in(answer.text)


def test_an_account_that_is_gone_is_signed_out(app: Flask, database: Database) -> None:
    import uuid

    ghost = Person(app, uuid.uuid4())
    assert ghost.get("/").status_code == 302
    with ghost.client.session_transaction() as session:
        session["_user_id"] = "no id at all"
    assert ghost.get("/").status_code == 302


def test_an_operator_is_called_one(app: Flask, database: Database) -> None:
    from webapp.models import Role

    with database.transaction() as session:
        operator = Person(app, factories.make_account(session, role=Role.OPERATOR))
    assert "<dd>Operator</dd>" in operator.get("/account").text
