"""Tests the creation of accounts by a mailed link and by an invitation."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select, text

from tasks.database import Database
from tests.support import factories
from tests.support.mail_site import MAILING, link_in, owed_mails
from tests.web.conftest import Browser, Person, rows
from webapp.auth import invitations
from webapp.models import Account, Invitation, Role

PASSWORD = "a harbour at night"
ADA = "ada@example.org"


@pytest.fixture
def mailing(make_app: Callable[..., Flask]) -> Flask:
    return make_app(**MAILING)


@pytest.fixture
def by_invitation(make_app: Callable[..., Flask]) -> Flask:
    return make_app(registration="invite")


@pytest.fixture
def operator(by_invitation: Flask, database: Database) -> Person:
    with database.transaction() as session:
        return Person(by_invitation, factories.make_account(session, email="olga@example.org", role=Role.OPERATOR))


def invite(database: Database, email: str | None = None) -> str:
    with database.transaction() as session:
        return f"/invitation/{invitations.invite(session, email=email, made_by=None)}"


def register(app: Flask, link: str, email: str = ADA):
    browser = Browser(app)
    found = re.search(r'name="invitation" value="([^"]+)"', browser.get(link).text)
    token = found[1] if found else link.rpartition("/")[2]
    return browser.post("/register", {"email": email, "password": PASSWORD, "invitation": token})


def test_where_mail_can_be_sent_an_account_is_made_by_a_link(mailing: Flask, database: Database) -> None:
    browser = Browser(mailing)
    assert "password" not in browser.get("/register").text.lower().replace("choose a password", "")
    answer = browser.post("/register", {"email": ADA})
    assert answer.status_code == 200 and "Check your e-mail" in answer.text
    assert not rows(database, select(Account.id))
    (owed,) = owed_mails(database)
    assert owed.what == "registration.confirm"
    link = link_in(mailing, owed)
    assert browser.get(link).status_code == 200
    assert not rows(database, select(Account.id)), "a program that opens links makes nothing"
    assert browser.post(link, {"password": "short"}).status_code == 422
    done = browser.post(link, {"password": PASSWORD})
    assert (done.status_code, done.location) == (303, "/")
    assert browser.get("/account").status_code == 200
    [(email, proven)] = rows(database, select(Account.email, Account.email_proven_at))
    assert email == ADA and proven is not None
    assert Browser(mailing).post(link, {"password": PASSWORD}).location == "/login", "it is there already"


def test_who_has_an_account_learns_it_from_the_mail_alone(mailing: Flask, database: Database) -> None:
    with database.transaction() as session:
        factories.make_account(session, email=ADA)
    answer = Browser(mailing).post("/register", {"email": ADA})
    assert answer.status_code == 200 and "already" not in answer.text
    (owed,) = owed_mails(database)
    assert owed.what == "registration.known"


@pytest.mark.parametrize("email", ["", "nobody", "a@b\r\nBcc: c@example.org"])
def test_no_mail_goes_to_what_is_no_address(mailing: Flask, database: Database, email: str) -> None:
    assert Browser(mailing).post("/register", {"email": email}).status_code == 422
    assert owed_mails(database) == []


def test_an_invitation_makes_one_account(by_invitation: Flask, database: Database) -> None:
    link = invite(database)
    page = Browser(by_invitation).get(link)
    assert page.status_code == 200 and "You are invited" in page.text
    [(stored,)] = rows(database, select(Invitation.token_hash))
    assert stored not in link
    assert register(by_invitation, link).status_code == 303
    again = register(by_invitation, link, "bob@example.org")
    assert again.status_code == 403 and "has been used" in again.text
    assert Browser(by_invitation).get(link).status_code == 404
    assert rows(database, select(Account.email)) == [(ADA,)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE invitations SET expires_at = now() - interval '1 second'",
        "UPDATE invitations SET used_at = now()",
        "DELETE FROM invitations",
    ],
)
def test_an_invitation_that_is_over_opens_nothing(by_invitation: Flask, database: Database, change: str) -> None:
    link = invite(database)
    browser = Browser(by_invitation)
    browser.get(link)
    with database.transaction() as session:
        session.execute(text(change))
    assert "This invitation has been used" in browser.get(link).text
    assert register(by_invitation, link).status_code == 403
    assert not rows(database, select(Account.id))


def test_a_refused_registration_leaves_the_invitation_as_it_was(by_invitation: Flask, database: Database) -> None:
    with database.transaction() as session:
        factories.make_account(session, email=ADA)
    link = invite(database)
    assert register(by_invitation, link).status_code == 422
    assert register(by_invitation, link, "new@example.org").status_code == 303


def test_an_invitation_for_one_address_opens_to_no_other(by_invitation: Flask, database: Database) -> None:
    link = invite(database, ADA)
    assert f'value="{ADA}" readonly' in Browser(by_invitation).get(link).text
    assert register(by_invitation, link, "bob@example.org").status_code == 422
    assert register(by_invitation, link).status_code == 303


def test_two_who_hold_one_invitation_make_one_account(by_invitation: Flask, database: Database) -> None:
    link = invite(database)
    both = ["a@example.org", "b@example.org"]
    answers = factories.all_at_once(
        [lambda email=email: register(by_invitation, link, email).status_code for email in both]
    )
    assert sorted(map(str, answers)) == ["303", "403"]
    assert len(rows(database, select(Account.id))) == 1


def test_an_invitation_and_a_mailed_link_go_together(make_app: Callable[..., Flask], database: Database) -> None:
    app = make_app(**MAILING, registration="invite")
    assert Browser(app).post("/register", {"email": ADA}).status_code == 403
    link = invite(database)
    assert register(app, link).status_code == 200
    (owed,) = owed_mails(database)
    mailed = link_in(app, owed)
    browser = Browser(app)
    assert browser.post(mailed, {"password": PASSWORD}).location == "/"
    assert rows(database, select(Invitation.used_at))[0][0] is not None
    assert register(app, link, "bob@example.org").status_code == 403


def test_an_operator_invites_and_withdraws(by_invitation: Flask, operator: Person, database: Database) -> None:
    made = operator.post("/ops/invitations", {"email": "", "days": "7"}, headers={"Host": "localhost"})
    assert made.status_code == 201
    found = re.search(r"<code data-copy-text>http://localhost(/invitation/[^<]+)</code>", html.unescape(made.text))
    assert found
    page = operator.get("/ops/invitations").text
    assert found[1] not in page and "anybody" in page and "olga@example.org" in page
    assert "Invitations" in operator.get("/ops").text
    [(identity,)] = rows(database, select(Invitation.id))
    assert operator.post(f"/ops/invitations/{identity}/revoke").status_code == 303
    assert operator.post(f"/ops/invitations/{identity}/revoke").status_code == 404
    assert Browser(by_invitation).get(found[1]).status_code == 404


@pytest.mark.parametrize(("email", "days"), [("nobody", "7"), ("", "0"), ("", "91"), ("", "x"), ("<b>", "7")])
def test_an_invitation_that_will_not_do_is_refused_in_words(
    operator: Person, database: Database, email: str, days: str
) -> None:
    answer = operator.post("/ops/invitations", {"email": email, "days": days})
    assert answer.status_code == 422 and 'class="error"' in answer.text and "<b>" not in answer.text
    assert not rows(database, select(Invitation.id))


@pytest.mark.parametrize("registration", ["open", "closed"])
def test_where_invitations_do_not_count_none_is_made(
    make_app: Callable[..., Flask], olga: Person, database: Database, registration: str
) -> None:
    operator = Person(make_app(registration=registration), olga.id)
    assert "count where" in operator.get("/ops/invitations").text
    assert operator.post("/ops/invitations", {"days": "7"}).status_code == 404
