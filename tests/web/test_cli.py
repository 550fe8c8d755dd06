from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner
from sqlalchemy import select

from tasks.database import Database
from tests.web.conftest import rows
from webapp.models import Account
from webapp.passwords import is_right

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
    assert (email, role) == ("ada@example.org", "operator") and is_right(PASSWORD, stored)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["create", "nobody"], 1, "not a complete e-mail address"),
        (["create", "ada@example.org"], 1, "already"),
        (["promote", "who@example.org"], 1, "no account who@example.org"),
        (["token", "who@example.org", "--name", "x"], 1, "no account who@example.org"),
        (["token", "ada@example.org", "--name", " "], 1, "name is empty"),
        (["token", "ada@example.org"], 2, "--name"),
        (["create"], 2, "EMAIL"),
        (["nothing"], 2, "No such command"),
    ],
    ids=range(8),
)
def test_a_refusal_is_one_line_on_stderr(runner: FlaskCliRunner, arguments: list[str], code: int, said: str) -> None:
    run(runner, "create", "ada@example.org")
    done = run(runner, *arguments)
    assert done.exit_code == code and done.stdout == "" and said in done.stderr
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


@pytest.mark.parametrize("command", [[], ["create"], ["promote"], ["token"]])
def test_every_command_explains_itself(runner: FlaskCliRunner, command: list[str]) -> None:
    done = run(runner, *command, "--help")
    assert done.exit_code == 0 and "Usage:" in done.stdout
