"""Tests the settings of an account: password, sessions, export."""

from __future__ import annotations

import io
import json
import uuid
import zipfile

import pytest
from flask import Flask
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.reports import job_views
from tests.support import factories
from tests.web.conftest import Browser, Person, Program, WebHarness, rows
from webapp.accounts import export
from webapp.auth import passwords
from webapp.models import Account

PASSWORD = "a harbour at night"
OTHER = "another harbour at dawn"


@pytest.fixture
def registered(app: Flask, database: Database) -> Browser:
    """Sign Ada in by her password."""
    with database.transaction() as session:
        session.add(Account(email="ada@example.org", password_hash=passwords.hash_password(PASSWORD)))
    return signed_in(app)


def signed_in(app: Flask, password: str = PASSWORD) -> Browser:
    browser = Browser(app)
    answer = browser.post("/login", {"email": "ada@example.org", "password": password})
    assert answer.status_code == 303
    browser.forget_token()
    return browser


def change(browser: Browser, password: str, new: str):
    browser.forget_token()
    return browser.post("/account/password", {"password": password, "new": new}, page="/account")


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account").status_code == 200


def test_a_new_password_ends_the_other_sessions_and_no_token(app: Flask, registered: Browser) -> None:
    elsewhere = signed_in(app)
    made = registered.post("/account/tokens", {"name": "nightly"}, page="/account")
    token = made.text.partition("<code data-copy-text>")[2].partition("<")[0]
    with registered.client.session_transaction() as session:
        before = session["csrf_token"]
    answer = change(registered, PASSWORD, OTHER)
    assert (answer.status_code, answer.location) == (303, "/account")
    assert "You have been signed out on all other devices" in registered.get("/account").text
    with registered.client.session_transaction() as session:
        assert session["csrf_token"] != before, "a session of its own, made new"
    assert not is_signed_in(elsewhere)
    assert Program(app, token).ask("GET", "/jobs").status_code == 200
    assert Browser(app).post("/login", {"email": "ada@example.org", "password": PASSWORD}).status_code == 401
    assert is_signed_in(signed_in(app, OTHER))


def test_a_sign_in_with_the_old_password_that_is_just_under_way_is_over_too(
    app: Flask, registered: Browser, database: Database
) -> None:
    """Check that the stamp alone ends it: its row is written after those of the account were deleted."""
    elsewhere = signed_in(app)
    with database.transaction() as session:
        late = session.execute(text("SELECT * FROM sessions ORDER BY created_at DESC LIMIT 1")).mappings().one()
    change(registered, PASSWORD, OTHER)
    with database.transaction() as session:
        again = "INSERT INTO sessions (id, account_id, stamp) VALUES (:id, :account_id, :stamp)"
        session.execute(text(again), dict(late))
    assert not is_signed_in(elsewhere)
    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET stamp = 1 WHERE id = :id"), dict(late))
    assert is_signed_in(elsewhere)


@pytest.mark.parametrize(
    ("password", "new", "status", "message"),
    [
        ("a guess", OTHER, 403, "Wrong password."),
        (PASSWORD, "short", 422, "at least 10"),
        (PASSWORD, "x" * 201, 422, "at most 200"),
        ("", "", 403, "Wrong password."),
    ],
)
def test_a_change_that_will_not_do_changes_nothing(
    registered: Browser, database: Database, password: str, new: str, status: int, message: str
) -> None:
    answer = change(registered, password, new)
    assert answer.status_code == status and message in answer.text
    [(stored,)] = rows(database, select(Account.password_hash))
    assert passwords.verify(PASSWORD, stored)


def test_whoever_found_an_open_browser_cannot_guess_the_password_by_any_form(registered: Browser) -> None:
    for _ in range(5):
        assert change(registered, "a guess", OTHER).status_code == 403
        assert registered.post("/account/delete", {"password": "a guess", "sure": "yes"}).status_code == 403
    assert change(registered, PASSWORD, OTHER).status_code == 429


def test_of_two_changes_at_the_same_moment_one_wins(app: Flask, registered: Browser, database: Database) -> None:
    elsewhere = signed_in(app)
    registered.token("/account")
    elsewhere.token("/account")
    data = {"password": PASSWORD}
    first, second = factories.all_at_once(
        [
            lambda: registered.post("/account/password", {**data, "new": OTHER}, page="/account"),
            lambda: elsewhere.post("/account/password", {**data, "new": OTHER + "!"}, page="/account"),
        ]
    )
    assert not isinstance(first, Exception) and not isinstance(second, Exception)
    # The later one either used the old password, or its session had already ended.
    assert [first.location, second.location].count("/account") == 1, (first.text, second.text)
    assert rows(database, select(Account.session_stamp)) == [(1,)]


def test_signing_out_everywhere_ends_every_session(app: Flask, registered: Browser, database: Database) -> None:
    elsewhere = signed_in(app)
    assert registered.get("/account/sessions/end").status_code == 405
    answer = registered.post("/account/sessions/end", page="/account")
    assert (answer.status_code, answer.location) == (303, "/login")
    assert "API tokens keep working" in registered.get("/login").text
    assert not is_signed_in(registered) and not is_signed_in(elsewhere)
    assert is_signed_in(signed_in(app))


def test_a_session_of_the_release_before_counts_until_sessions_are_ended(ada: Person, database: Database) -> None:
    assert ada.get("/account").status_code == 200, "it carries no stamp"
    with database.transaction() as session:
        session.execute(text("UPDATE accounts SET session_stamp = 1"))
    assert ada.get("/account").status_code == 302


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


def test_the_export_holds_everything_that_is_theirs_and_nothing_of_others(
    ada: Person, bob: Person, bench: WebHarness, database: Database
) -> None:
    done = bench.succeeded("The **pier** is closed.", title="Harbour / report")
    failed = bench.failed(Category.OVERLOADED)
    bob.paste("Bob's own secret.")
    ada.post("/account/tokens", {"name": "nightly"})
    with database.transaction() as session:
        session.execute(
            text("UPDATE documents SET filename = '../../etc/passwd' WHERE account_id = :id"), {"id": ada.id}
        )
        session.execute(
            text(
                "INSERT INTO provider_calls (id, job_id, generation, step, lane, provider, model, outcome, ended_at, "
                "request_id, response_id) VALUES (:id, :job, 1, 'summarise', 'l', 'openai', 'm', 'succeeded', now(), "
                "'req_secret', 'resp_secret')"
            ),
            {"id": uuid.uuid4(), "job": done},
        )
    answer = ada.post("/account/export")
    assert (answer.status_code, answer.mimetype) == (200, "application/zip")
    assert "waybill-export.zip" in answer.headers["Content-Disposition"]
    files = unpacked(answer.data)
    everything = b"\n".join(files.values()).decode()
    assert "Bob's own" not in everything and "secret" not in everything and "password_hash" not in everything
    about = json.loads(files["account.json"])
    assert [token["name"] for token in about["api_tokens"]] == ["nightly"]
    assert len(about["sessions"]) == 1 and about["sessions"][0]["created_at"]
    jobs = [json.loads(content) for name, content in files.items() if name.endswith("job.json")]
    by_id = {job["id"]: job for job in jobs}
    assert set(by_id) == {str(done), str(failed)}
    texts = [event["what"] for event in by_id[str(failed)]["events"]]
    assert texts[0] == "Accepted and waiting for a free worker." and "The AI service was busy." in texts[-1]
    assert by_id[str(done)]["attempts"][0]["outcome"] == "succeeded"
    assert [name for name in files if name.endswith("result.md")]
    kept = by_id[str(done)]["document"]["file"]
    assert files[kept].startswith(factories.TEXT)
    for name in files:
        assert not name.startswith("/") and ".." not in name.split("/") and "\\" not in name, name


@pytest.mark.parametrize(
    ("name", "safe"),
    [("a/../b.txt", "a-..-b.txt"), ("..", "document"), ("C:\\x", "C--x"), ("é.pdf", "é.pdf"), ("\x00", "-")],
)
def test_a_file_in_the_export_leads_to_no_other_folder(name: str, safe: str) -> None:
    assert export.file_name(name) == safe


def test_an_account_has_one_export_at_a_time_and_a_dead_one_ends_by_itself(
    ada: Person, database: Database, bench: WebHarness
) -> None:
    bench.job()
    with database.transaction() as session:
        first = export.begin(session, ada.id)
    assert first is not None
    busy = ada.post("/account/export")
    assert busy.status_code == 409 and "already running" in busy.text
    with database.transaction() as session:
        session.execute(text("UPDATE accounts SET exporting_until = now() - interval '1 second'"))
        second = export.begin(session, ada.id)
    assert second is not None
    with database.transaction() as session, pytest.raises(export.LockLost):
        export.extend(session, first)
    with database.transaction() as session:
        export.end(session, first)  # too late, and without effect
        assert export.begin(session, ada.id) is None
        export.end(session, second)
    whole = ada.post("/account/export")
    unpacked(whole.data)
    whole.close()  # as a web server does once everything is sent
    assert rows(database, select(Account.exporting_until)) == [(None,)]


def test_an_export_holds_no_connection_and_little_memory_while_it_is_sent(
    app: Flask, ada: Person, bench: WebHarness, database: Database
) -> None:
    with app.test_request_context():
        with database.transaction() as session:
            account = session.get(Account, ada.id)
            turn = export.begin(session, ada.id)
        assert account is not None and turn is not None
        for _ in range(3):
            bench.job()
        from webapp.extensions import db

        pieces = export.archive(account, turn, language_code="en")
        for _ in pieces:
            assert db.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_whoever_goes_away_in_the_middle_leaves_the_place_to_others(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    bench.job()
    for _ in range(4):  # more than there are slots
        answer = ada.post("/account/export", buffered=False)
        assert answer.status_code == 200
        answer.close()
    assert rows(database, select(Account.exporting_until)) == [(None,)]
    with database.transaction() as session:
        assert len(job_views.jobs_of(session, ada.id, limit=9)) == 1
