"""Tests the sign-in with a service: a real OpenID Connect provider responds, and a test can make it lie."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import select
from werkzeug.test import TestResponse

from tasks.database import Database
from tasks.ledger.accounts import disabled
from tasks.startup import sign_in
from tests.support import factories
from tests.support.fakes.openid_provider import CLIENT, SECRET, SignInService, sign_in_service
from tests.web.conftest import Browser, Person, rows
from webapp.auth import invitations, passwords
from webapp.models import NO_PASSWORD, Account, Identity, Role

PASSWORD = "a harbour at night"
ADA = "ada@example.org"
VERIFIED = {"sub": "77", "email": ADA, "email_verified": True}
START, DONE = "/login/service", "/login/service/done"


@pytest.fixture
def service() -> Iterator[SignInService]:
    with sign_in_service() as running:
        running.claims = dict(VERIFIED)
        yield running


@pytest.fixture
def open_site(make_app: Callable[..., Flask], service: SignInService) -> Callable[..., Flask]:
    """Create a site that has the service."""

    def opened(**changed) -> Flask:
        ours = {"oidc_issuer": service.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SecretStr(SECRET)}
        return make_app(**{**ours, "app_base_url": "http://localhost", "oidc_label": "Harbour ID", **changed})

    return opened


@pytest.fixture
def browser(open_site: Callable[..., Flask]) -> Browser:
    return Browser(open_site())


def at_service(address: str) -> str:
    """Return the service's redirect for the browser that was sent there: the path and query to come back to."""
    there = urlsplit(address)
    connection = http.client.HTTPConnection(there.netloc, timeout=10)
    connection.request("GET", f"{there.path}?{there.query}")
    back = urlsplit(connection.getresponse().headers["location"])
    connection.close()
    assert f"{back.scheme}://{back.netloc}{back.path}" == f"http://localhost{DONE}"
    return f"{back.path}?{back.query}"


def go(browser: Browser, start: str = START) -> TestResponse:
    """Go to the service and come back."""
    away = browser.get(start)
    assert away.status_code == 302, away.text
    browser.forget_token()
    return browser.get(at_service(away.location))


def add_account(database: Database, *, proven: bool, password: str | None = PASSWORD, role: Role = Role.USER) -> None:
    from sqlalchemy import func

    with database.transaction() as session:
        stored = NO_PASSWORD if password is None else passwords.hash_password(password)
        account = Account(email=ADA, password_hash=stored, role=role, email_proven_at=func.now() if proven else None)
        session.add(account)


def who(browser: Browser) -> str | None:
    """Return whose page this browser shows."""
    page = browser.get("/account")
    return ADA if page.status_code == 200 and f"<dd>{ADA}</dd>" in page.text else None


def test_without_a_service_there_is_none(ada: Person) -> None:
    assert "Sign in with" not in Browser(ada.client.application).get("/login").text
    for path in (START, DONE):
        assert ada.get(path).status_code == 404
    assert ada.post("/account/service").status_code == 404


def test_who_comes_with_a_verified_address_gets_an_account_and_keeps_it(
    browser: Browser, service: SignInService, database: Database
) -> None:
    assert "Sign in with Harbour ID" in browser.get("/login").text
    browser.token("/login")
    with browser.client.session_transaction() as session:
        session["planted"] = "by somebody else"
    answer = go(browser, f"{START}?next=/account")
    assert (answer.status_code, answer.location) == (303, "/account")
    with browser.client.session_transaction() as session:
        assert "planted" not in session and not [key for key in session if "state" in key]
    assert who(browser) == ADA
    asked = service.asked[0]
    assert asked["code_challenge_method"] == "S256" and asked["nonce"] and asked["state"]
    assert asked["response_type"] == "code" and "prompt" not in asked
    [(stored, proven)] = rows(database, select(Account.password_hash, Account.email_proven_at))
    assert stored == NO_PASSWORD and proven is not None
    service.claims |= {"email": "renamed@example.org", "email_verified": False}
    again = Browser(browser.client.application)
    assert go(again).location == "/"
    assert who(again) == ADA, "known by the service's own name, not by an address"
    assert len(rows(database, select(Account.id))) == 1
    typed = Browser(again.client.application).post("/login", {"email": ADA, "password": NO_PASSWORD})
    assert typed.status_code == 401, "no password fits an account that has none"


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"aud": "another site"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1},
        {"sub": None},
    ],
    ids=str,
)
def test_a_token_that_proves_nothing_signs_nobody_in(
    browser: Browser, service: SignInService, database: Database, wrong: dict[str, object]
) -> None:
    service.wrong = wrong
    answer = go(browser)
    assert answer.status_code == 403 and "did not work" in answer.text
    assert who(browser) is None and not rows(database, select(Account.id))
    service.wrong = {}
    assert go(browser).status_code == 303


@pytest.mark.parametrize(
    ("announced", "named", "status"),
    [(True, None, 403), (True, "another", 403), (True, "itself", 303), (False, "another", 403), (False, "itself", 303)],
)
def test_an_answer_of_another_service_is_refused(
    browser: Browser, service: SignInService, database: Database, announced: bool, named: str | None, status: int
) -> None:
    """Check RFC 9207: otherwise the code of one service could be passed to the other."""
    service.names_itself = announced
    service.named = {"itself": service.issuer, "another": "https://id.example.com"}.get(named or "")
    assert go(browser).status_code == status
    assert len(rows(database, select(Account.id))) == (status == 303)
    service.named = service.issuer
    assert go(Browser(browser.client.application)).status_code == 303, "it was the name alone"


def test_who_is_disabled_here_is_not_let_in_by_the_service_either(browser: Browser, database: Database) -> None:
    assert go(browser).status_code == 303
    with database.transaction() as session:
        disabled.disable(session, session.execute(select(Account.id)).scalar_one())
    answer = go(Browser(browser.client.application))
    assert answer.status_code == 403 and "is disabled" in answer.text
    assert who(browser) is None


def test_a_token_that_anybody_could_have_signed_counts_for_nothing(browser: Browser, service: SignInService) -> None:
    service.sign_with_the_clients_secret()
    assert go(browser).status_code == 403
    assert who(browser) is None


@pytest.mark.parametrize("claim", [False, None, "true", 1])
def test_an_address_that_the_service_has_not_verified_opens_nothing(
    browser: Browser, service: SignInService, database: Database, claim: object
) -> None:
    add_account(database, proven=True)
    service.claims["email_verified"] = claim
    answer = go(browser)
    assert answer.status_code == 403 and "has not verified" in answer.text
    assert who(browser) is None and not rows(database, select(Identity.subject))


def test_the_address_may_come_by_the_second_way_too(
    browser: Browser, service: SignInService, database: Database
) -> None:
    service.claims = {"sub": "77"}
    service.more = {"email": ADA, "email_verified": True}
    assert go(browser).status_code == 303 and who(browser) == ADA
    other = Browser(browser.client.application)
    service.claims, service.more = {"sub": "78"}, {"sub": "79", "email": ADA, "email_verified": True}
    assert go(other).status_code == 403, "an answer about somebody else"


@pytest.mark.parametrize(
    ("proven", "role", "opened"),
    [(True, Role.USER, True), (False, Role.USER, False), (True, Role.OPERATOR, False)],
    ids=["proven", "not proven", "operator"],
)
def test_an_address_opens_an_account_only_where_it_was_proven_here_too(
    browser: Browser, database: Database, proven: bool, role: Role, opened: bool
) -> None:
    add_account(database, proven=proven, role=role)
    answer = go(browser)
    assert (who(browser) == ADA) is opened
    if not opened:
        assert answer.status_code == 403 and "Sign in with its password" in answer.text
    assert len(rows(database, select(Account.id))) == 1


def test_its_owner_links_an_account_by_its_password(
    open_site: Callable[..., Flask], service: SignInService, database: Database
) -> None:
    add_account(database, proven=False)
    app = open_site()
    owner = Browser(app)
    owner.post("/login", {"email": ADA, "password": PASSWORD})
    owner.forget_token()
    assert owner.post("/account/service", {"password": "a guess"}, page="/account").status_code == 403
    service.claims = {"sub": "of Ada's", "email": "other@example.org", "email_verified": True}
    linking = owner.post("/account/service", {"password": PASSWORD}, page="/account")
    assert linking.status_code == 200 and f'href="{START}?link=yes&amp;again=yes"' in linking.text
    answer = go(owner, f"{START}?link=yes&again=yes")
    assert (answer.status_code, answer.location) == (303, "/account")
    assert service.asked[-1]["prompt"] == "login"
    assert "You can now sign in with Harbour ID" in owner.get("/account").text
    fresh = Browser(app)
    assert go(fresh).status_code == 303 and who(fresh) == ADA
    assert fresh.post("/account/service/remove", page="/account").status_code == 303
    assert not rows(database, select(Identity.subject))


def test_a_link_that_nobody_asked_for_by_password_links_nothing(
    open_site: Callable[..., Flask], service: SignInService, database: Database
) -> None:
    add_account(database, proven=True)
    owner = Browser(open_site())
    owner.post("/login", {"email": ADA, "password": PASSWORD})
    service.claims = {"sub": "the attacker's", "email": "evil@example.org", "email_verified": True}
    answer = go(owner, f"{START}?link=yes")
    assert answer.status_code == 303 and who(owner) is None, "signed in as whoever the service says, and nothing more"
    [(subject, email)] = rows(database, select(Identity.subject, Account.email).join(Account))
    assert (subject, email) == ("the attacker's", "evil@example.org")


def test_the_last_way_in_is_kept_and_a_fresh_sign_in_stands_for_the_password(
    browser: Browser, service: SignInService, database: Database
) -> None:
    go(browser)
    assert "Set a password first" in browser.post("/account/service/remove", page="/account").text
    with browser.client.session_transaction() as session:
        session["proved"] -= 3600
    refused = browser.post("/account/delete", {"sure": "yes"}, page="/account")
    assert refused.status_code == 403 and "Sign in again" in refused.text
    go(browser, f"{START}?again=yes&next=/account")
    assert service.asked[-1]["prompt"] == "login"
    assert browser.post("/account/password", {"new": PASSWORD}, page="/account").status_code == 303
    browser.forget_token()
    assert browser.post("/account/service/remove", page="/account").status_code == 303
    assert Browser(browser.client.application).post("/login", {"email": ADA, "password": PASSWORD}).status_code == 303


@pytest.mark.parametrize("registration", ["closed", "invite"])
def test_a_site_that_takes_nobody_takes_nobody_by_the_service(
    open_site: Callable[..., Flask], database: Database, registration: str
) -> None:
    browser = Browser(open_site(registration=registration))
    answer = go(browser)
    assert answer.status_code == 403 and "this site is invitation-only" in answer.text
    assert not rows(database, select(Account.id))
    add_account(database, proven=True)
    assert go(browser).status_code == 303 and who(browser) == ADA


def test_an_invitation_holds_for_the_service_too(open_site: Callable[..., Flask], database: Database) -> None:
    app = open_site(registration="invite")
    with database.transaction() as session:
        token = invitations.invite(session, email=None, made_by=None)
    browser = Browser(app)
    assert f"{START}?invitation={token}" in browser.get(f"/invitation/{token}").text
    assert go(browser, f"{START}?invitation={token}").status_code == 303 and who(browser) == ADA
    with database.transaction() as session:
        assert invitations.open_one(session, token) is None


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_next_never_leads_off_the_site(browser: Browser, address: str) -> None:
    assert go(browser, f"{START}?next={address}").location == "/"


def test_what_comes_back_unasked_signs_nobody_in(browser: Browser, service: SignInService, database: Database) -> None:
    away = browser.get(START)
    back = at_service(away.location)
    stranger = Browser(browser.client.application)
    for path in (back, f"{DONE}?code=x&state=y", DONE, f"{DONE}?error=access_denied&error_description=<b>"):
        answer = stranger.get(path)
        assert answer.status_code == 403 and "<b>" not in answer.text, path
    assert browser.get(back).status_code == 303
    assert Browser(browser.client.application).get(back).status_code == 403, "a code is worth something once"
    assert len(rows(database, select(Account.id))) == 1


def test_where_people_come_back_to_is_not_what_a_request_calls_the_host(browser: Browser) -> None:
    evil = {"base_url": "http://evil.example", "headers": {"X-Forwarded-Host": "worse.example"}}
    away = browser.get(START, **evil)
    assert parse_qs(urlsplit(away.location).query)["redirect_uri"] == [f"http://localhost{DONE}"]


def test_tries_that_were_left_do_not_fill_the_cookie(browser: Browser) -> None:
    for _ in range(8):
        away = browser.get(START)
    assert len(away.headers["Set-Cookie"]) < 2000
    assert browser.get(at_service(away.location)).status_code == 303


def test_a_service_that_is_away_or_another_one_is_said_in_words(
    browser: Browser, open_site: Callable[..., Flask], service: SignInService
) -> None:
    from webapp.local.ports import free_port

    away = Browser(open_site(oidc_issuer=f"http://127.0.0.1:{free_port()}")).get(START)
    assert away.status_code == 403 and "could not be reached" in away.text
    service.said_issuer = "https://other.example"
    assert browser.get(START).status_code == 403
    service.said_issuer = None
    assert browser.get(START).status_code == 302, "asked again once that was put right"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, ""),
        ({"oidc_client_secret": None}, "go together"),
        ({"oidc_issuer": None}, "go together"),
        ({"oidc_issuer": "http://id.example.org"}, "OIDC_ISSUER must"),
        ({"oidc_issuer": "https://id.example.org/?a=b"}, "OIDC_ISSUER must"),
        ({"oidc_issuer": "http://localhost:9", "waybill_demo": False}, "OIDC_ISSUER must"),
        ({"app_base_url": None}, "APP_BASE_URL"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    addresses: dict[str, str], changed: dict[str, object], named: str
) -> None:
    ours = {"oidc_issuer": "https://id.example.org", "oidc_client_id": "w", "oidc_client_secret": "s"}
    settings = factories.settings(addresses, **{**ours, "app_base_url": "https://waybill.example.org", **changed})
    found = sign_in.problems(settings)
    assert (len(found), named in "".join(found)) == (1 if named else 0, True)
