from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner
from sqlalchemy import func, select

from tasks.database import Database
from tests.web.conftest import Browser, rows
from webapp.auth.passwords import verify
from webapp.models import Account, Invitation

PASSWORD = "a harbour at night"


@pytest.fixture
def runner(app: Flask, monkeypatch: pytest.MonkeyPatch) -> FlaskCliRunner:
    monkeypatch.setenv("ACCOUNT_PASSWORD", PASSWORD)
    return app.test_cli_runner()


def run(runner: FlaskCliRunner, *arguments: str):
    return runner.invoke(args=["accounts", *arguments])


def test_an_account_is_created_with_the_password_of_the_environment(runner: FlaskCliRunner, database: Database) -> None:
    done = run(runner, "create", "Ada@Example.org", "--operator")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "Created ada@example.org (operator).\n", "")
    [(email, stored, role)] = rows(database, select(Account.email, Account.password_hash, Account.role))
    assert (email, role) == ("ada@example.org", "operator") and verify(PASSWORD, stored)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "nobody"], 1, "not a complete e-mail address"),
        (["create", "ada@example.org"], 1, "already"),
        (["promote", "who@example.org"], 1, "no account who@example.org"),
        (["token", "who@example.org", "--name", "x"], 1, "no account who@example.org"),
        (["token", "ada@example.org", "--name", " "], 1, "name is empty"),
        (["token", "ada@example.org"], 2, "--name"),
        (["create"], 2, "EMAIL"),
        (["password", "who@example.org"], 1, "no account who@example.org"),
        (["password"], 2, "EMAIL"),
        (["invite"], 1, "REGISTRATION is open"),
        (["invite", "--days", "0"], 2, "--days"),
        (["nothing"], 2, "No such command"),
    ],
    ids=range(12),
)
def test_a_refusal_is_one_line_on_stderr(runner: FlaskCliRunner, arguments: list[str], code: int, message: str) -> None:
    run(runner, "create", "ada@example.org")
    done = run(runner, *arguments)
    assert done.exit_code == code and done.stdout == "" and message in done.stderr
    if code == 1:
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("password", ["", "short"])
def test_a_password_that_will_not_do_makes_no_account(
    runner: FlaskCliRunner, database: Database, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("ACCOUNT_PASSWORD", password)
    assert run(runner, "create", "ada@example.org").exit_code == 1
    assert not rows(database, select(Account.id))


def test_an_account_is_promoted(runner: FlaskCliRunner, database: Database) -> None:
    run(runner, "create", "ada@example.org")
    assert run(runner, "promote", "ADA@example.org").exit_code == 0
    assert rows(database, select(Account.role)) == [("operator",)]


def test_a_token_is_printed_alone_and_works(runner: FlaskCliRunner, app: Flask) -> None:
    run(runner, "create", "ada@example.org")
    done = run(runner, "token", "ada@example.org", "--name", "nightly")
    assert done.exit_code == 0 and done.stderr == ""
    assert re.fullmatch(r"wb_[\w-]{43}\n", done.stdout)
    answer = app.test_client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {done.stdout.strip()}"})
    assert answer.status_code == 200


def test_a_forgotten_password_is_set_from_a_terminal_and_ends_all_sessions(
    runner: FlaskCliRunner, app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(runner, "create", "ada@example.org")
    browser = Browser(app)
    assert browser.post("/login", {"email": "ada@example.org", "password": PASSWORD}).status_code == 303
    monkeypatch.setenv("ACCOUNT_PASSWORD", "short")
    assert run(runner, "password", "ada@example.org").exit_code == 1
    assert browser.get("/account").status_code == 200
    monkeypatch.setenv("ACCOUNT_PASSWORD", "another harbour at dawn")
    done = run(runner, "password", "ADA@example.org")
    assert (done.exit_code, done.stderr) == (0, "") and "signed out everywhere" in done.stdout
    assert browser.get("/account").status_code == 302
    [(stored,)] = rows(database, select(Account.password_hash))
    assert verify("another harbour at dawn", stored)


def test_an_invitation_is_printed_alone_and_opens_the_form(make_app: Callable[..., Flask], database: Database) -> None:
    site = make_app(registration="invite", app_base_url="https://waybill.example/")
    inviting = site.test_cli_runner()
    done = run(inviting, "invite", "Ada@Example.org", "--days", "3")
    assert done.exit_code == 0 and done.stderr == ""
    found = re.fullmatch(r"https://waybill\.example(/invitation/[\w-]{43})\n", done.stdout)
    assert found and 'value="ada@example.org"' in Browser(site).get(found[1]).text
    assert run(inviting, "invite", "nobody").exit_code == 1
    [(days,)] = rows(database, select(func.date_part("day", Invitation.expires_at - Invitation.created_at)))
    assert days == 3
    nowhere = run(make_app(registration="invite").test_cli_runner(), "invite")
    assert nowhere.exit_code == 1 and "APP_BASE_URL is missing" in nowhere.stderr


@pytest.mark.parametrize("command", [[], ["create"], ["promote"], ["token"], ["password"], ["invite"]])
def test_every_command_explains_itself(runner: FlaskCliRunner, command: list[str]) -> None:
    done = run(runner, *command, "--help")
    assert done.exit_code == 0 and "Usage:" in done.stdout


def test_the_limits_of_an_account_are_shown_and_set(runner: FlaskCliRunner, app: Flask) -> None:
    run(runner, "create", "ada@example.org")
    plain = "Documents submitted in the last 24 hours: 0 of any number\nDocuments in progress: 0 of any number\n"
    assert run(runner, "limits", "ada@example.org").stdout == f"{plain}Tokens used this month: 0 of any number\n"
    run(runner, "limits", "Ada@example.org", "--jobs-at-once", "7", "--tokens-per-month", "5000000000")
    done = run(runner, "limits", "ada@example.org", "--jobs-at-once", "site", "--jobs-per-day", "0")
    assert done.exit_code == 0 and done.stdout == (
        "Documents submitted in the last 24 hours: 0 of any number (this account's own limit)\n"
        "Documents in progress: 0 of any number\n"
        "Tokens used this month: 0 of 5000000000 (this account's own limit)\n"
    )
    for wrong in ("-1", "many", "9" * 19):
        assert run(runner, "limits", "ada@example.org", "--jobs-per-day", wrong).exit_code == 2
    assert run(runner, "limits", "who@example.org").exit_code == 1
