"""Tests that an operator can lock an account out and let it in again, but not the last operator."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.accounts import disabled
from tasks.ledger.models.control import Decided, Decision
from tests.support import factories
from tests.web.conftest import Browser, Person, Program, WebHarness, assert_problem, rows
from webapp.auth import account_access, api_tokens, passwords
from webapp.auth.account_access import Deciding, NotDecided
from webapp.models import Account, ApiToken, BrowserSession, Role
from webapp.upload_links import links
from webapp.upload_links.links import LinkState, LinkTerms

PASSWORD = "a harbour at night"
ADA = "ada@example.org"


@pytest.fixture
def registered(app: Flask, database: Database) -> uuid.UUID:
    with database.transaction() as session:
        account = Account(email=ADA, password_hash=passwords.hash_password(PASSWORD))
        session.add(account)
        session.flush()
        return account.id


def decide(olga: Person, account_id: uuid.UUID, what: str, reason: str = "spam <b>"):
    return olga.post(f"/ops/accounts/{account_id}/{what}", {"note": reason})


def sign_in(app: Flask, password: str = PASSWORD):
    browser = Browser(app)
    return browser, browser.post("/login", {"email": ADA, "password": password})


def decisions_of(database: Database) -> list[tuple[str, str, str, dict[str, object]]]:
    found = rows(database, select(Decision.what, Decision.by, Decision.note, Decision.facts).order_by(Decision.id))
    return [tuple(row) for row in found]


def test_a_disabled_account_is_out_at_once_and_back_when_it_is_enabled(
    app: Flask, olga: Person, registered: uuid.UUID, database: Database
) -> None:
    browser, answer = sign_in(app)
    assert answer.status_code == 303 and browser.get("/account").status_code == 200
    done = decide(olga, registered, "disable")
    assert (done.status_code, done.location) == (303, f"/ops/accounts/{registered}")
    page = olga.get(done.location).text
    assert "The account is disabled." in page and "Disabled since" in page and "spam &lt;b&gt;" in page
    assert browser.get("/account").status_code == 302
    assert rows(database, select(BrowserSession.id).where(BrowserSession.account_id == registered)) == []
    _, wrong = sign_in(app, "a guess")
    assert wrong.status_code == 401 and "disabled" not in wrong.text, "who has no password learns nothing"
    again, right = sign_in(app)
    assert right.status_code == 403 and "This account is disabled." in right.text
    assert "Contact the operator of this site" in right.text and again.get("/account").status_code == 302
    assert "disabled" in olga.get(f"/ops/accounts?q={ADA}").text
    assert decide(olga, registered, "enable", "a mistake").status_code == 303
    assert sign_in(app)[1].status_code == 303
    facts = {"account": str(registered)}
    assert decisions_of(database) == [
        (Decided.DISABLE_ACCOUNT, "olga@example.org", "spam <b>", facts),
        (Decided.ENABLE_ACCOUNT, "olga@example.org", "a mistake", facts),
    ]
    assert "disabled an account" in olga.get("/ops/decisions").text


def test_a_session_is_closed_by_the_row_also_where_its_own_was_left(ada: Person, database: Database) -> None:
    """Cover a sign-in in progress: its row is written after those of the account were deleted."""
    assert ada.get("/account").status_code == 200
    with database.transaction() as session:
        disabled.disable(session, ada.id)
    assert ada.get("/account").status_code == 302
    with database.transaction() as session:
        disabled.enable(session, ada.id)
    assert ada.get("/account").status_code == 200


def test_its_api_tokens_are_refused_as_a_problem_and_work_again_afterwards(
    olga: Person, ada: Person, program: Program, stranger: Program
) -> None:
    assert program.ask("GET", "/jobs").status_code == 200
    decide(olga, ada.id, "disable")
    body = assert_problem(program.ask("GET", "/jobs"), 403)
    assert body["code"] == "account_disabled" and "Ask the operator of this site" in body["detail"]
    assert program.submit().status_code == 403
    assert stranger.ask("GET", "/jobs").status_code == 200
    decide(olga, ada.id, "enable")
    assert program.ask("GET", "/jobs").status_code == 200


def test_its_upload_links_take_and_show_nothing(
    app: Flask, olga: Person, ada: Person, database: Database, browser: Browser, bench: WebHarness
) -> None:
    terms = LinkTerms("n", "summary", {"length": "medium", "form": "prose"}, 3600, 5, [], None, True)
    with app.test_request_context(), database.transaction() as session:
        link_id = links.make_link(session, ada.id, terms, kept_days=30)
        link = links.link_of(session, link_id, ada.id)
        assert link is not None
        address = links.signed_urls.sign(links.signed_urls.LINK, link_id)
    job_id = bench.job()
    assert browser.get(f"/embed/{address}").status_code == 200
    decide(olga, ada.id, "disable")
    assert browser.get(f"/embed/{address}").status_code in (404, 410)
    with app.test_request_context(), database.transaction() as session:
        link = links.link_at(session, address)
        assert link is not None and link.state is LinkState.REVOKED
        with pytest.raises(links.LinkClosed):
            links.take_use(session, link_id, job_id)
        session.rollback()
    decide(olga, ada.id, "enable")
    assert browser.get(f"/embed/{address}").status_code == 200


def test_all_tokens_are_revoked_for_a_reason(olga: Person, ada: Person, program: Program, database: Database) -> None:
    with database.transaction() as session:
        api_tokens.make_token(session, ada.id, "another")
    assert "Revoke its API tokens" in olga.get(f"/ops/accounts/{ada.id}").text
    decide(olga, ada.id, "revoke-tokens")
    assert rows(database, select(ApiToken.id)) == [] and program.ask("GET", "/jobs").status_code == 401
    assert decisions_of(database)[0][3] == {"account": str(ada.id), "tokens": 2}
    decide(olga, ada.id, "revoke-tokens")
    assert "Nothing was changed." in olga.get(f"/ops/accounts/{ada.id}").text
    assert len(decisions_of(database)) == 1


def test_the_role_is_taken_for_a_reason(olga: Person, app: Flask, database: Database) -> None:
    with database.transaction() as session:
        other = Person(app, factories.make_account(session, role=Role.OPERATOR))
    assert other.get("/ops").status_code == 200
    decide(olga, other.id, "demote")
    assert other.get("/ops").status_code == 404 and other.get("/account").status_code == 200
    assert decisions_of(database)[0][0] == Decided.DEMOTE


@pytest.mark.parametrize("what", ["disable", "demote"])
def test_nobody_does_it_to_their_own_account(olga: Person, app: Flask, database: Database, what: str) -> None:
    with database.transaction() as session:
        factories.make_account(session, role=Role.OPERATOR)  # so that she is not the last one
    answer = decide(olga, olga.id, what)
    assert answer.status_code == 409 and "This is your own account." in answer.text
    assert olga.get("/ops").status_code == 200 and decisions_of(database) == []


@pytest.mark.parametrize("what", [account_access.disable, account_access.demote])
@pytest.mark.parametrize("others", ["none", "a disabled one", "one"])
def test_the_last_operator_who_can_sign_in_stays(database: Database, what: Callable[..., object], others: str) -> None:
    at_terminal = Deciding(factories.QUEUE, by="x", reason="y")
    with database.transaction() as session:
        account = session.get(Account, factories.make_account(session, role=Role.OPERATOR))
        factories.make_account(session)
        if others != "none":
            other = factories.make_account(session, role=Role.OPERATOR)
            if others == "a disabled one":
                disabled.disable(session, other)
    with database.transaction() as session:
        if others == "one":
            assert what(session, account, at_terminal)
        else:
            with pytest.raises(NotDecided, match="last operator"):
                what(session, account, at_terminal)


def test_two_operators_who_decide_about_each_other_leave_one(database: Database) -> None:
    with database.transaction() as session:
        both = [factories.make_account(session, role=Role.OPERATOR) for _ in range(2)]

    def demoted_by(other: uuid.UUID, account_id: uuid.UUID) -> object:
        with database.transaction() as session:
            account = session.get(Account, account_id)
            assert account is not None
            return account_access.demote(session, account, Deciding(factories.QUEUE, "x", "y", other))

    answers = factories.all_at_once([lambda: demoted_by(both[0], both[1]), lambda: demoted_by(both[1], both[0])])
    assert sorted(str(answer) for answer in answers) == sorted(["True", account_access.LAST_OPERATOR])
    assert len(rows(database, select(Account.id).where(Account.role == Role.OPERATOR))) == 1


def test_without_a_reason_nothing_is_done_and_the_limits_stay_in_their_form(
    olga: Person, ada: Person, database: Database
) -> None:
    olga.post(f"/ops/accounts/{ada.id}/limits", {"jobs_per_day": "77", "note": "x"})
    for what in ("disable", "enable", "revoke-tokens", "demote"):
        answer = decide(olga, ada.id, what, "  ")
        assert answer.status_code == 422 and 'id="reason-error"' in answer.text and 'value="77"' in answer.text
    assert len(decisions_of(database)) == 1 and ada.get("/account").status_code == 200
    assert olga.post(f"/ops/accounts/{ada.id}/else", {"note": "x"}).status_code == 404
    assert decide(olga, uuid.uuid4(), "disable").status_code == 404


def test_the_same_at_a_terminal(app: Flask, database: Database, registered: uuid.UUID) -> None:
    runner: FlaskCliRunner = app.test_cli_runner()

    def run(*arguments: str) -> tuple[int, str, str]:
        done = runner.invoke(args=["accounts", *arguments])
        return done.exit_code, done.stdout, done.stderr

    with database.transaction() as session:
        api_tokens.make_token(session, registered, "one")
    why = ("--reason", "asked by mail")
    assert run("disable", ADA, *why) == (0, f"{ADA} is disabled.\n", "")
    assert run("disable", ADA, *why) == (0, f"{ADA} was disabled already.\n", "")
    assert run("enable", ADA, *why) == (0, f"{ADA} is enabled.\n", "")
    assert run("revoke-tokens", ADA, *why) == (0, f"{ADA} had 1 API tokens. None is left.\n", "")
    assert run("promote", ADA, *why)[0] == 0
    code, said, refused = run("demote", ADA, *why)
    assert (code, said) == (1, "") and "last operator" in refused and refused.count("\n") == 1
    with database.transaction() as session:
        factories.make_account(session, role=Role.OPERATOR)
    assert run("demote", ADA, *why) == (0, f"{ADA} is no operator any more.\n", "")
    assert run("demote", ADA, *why) == (0, f"{ADA} was no operator.\n", "")
    assert run("disable", ADA)[0] == 2 and "--reason" in run("disable", ADA)[2]
    assert run("disable", ADA, "--reason", " ")[0] == 1 and run("disable", "who@example.org", *why)[0] == 1
    what = [decision[0] for decision in decisions_of(database)]
    assert what == ["disable_account", "enable_account", "revoke_tokens", "promote", "demote"]
    assert all(by.endswith("(command line)") and note == "asked by mail" for _, by, note, _ in decisions_of(database))


def test_what_is_disabled_goes_with_its_account(database: Database, registered: uuid.UUID) -> None:
    with database.transaction() as session:
        disabled.disable(session, registered)
        session.execute(text("DELETE FROM accounts WHERE id = :id"), {"id": registered})
        assert factories.count(session, "disabled_accounts") == 0
