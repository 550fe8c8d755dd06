"""Every text for users is looked up in the catalogue, on every page.

The pages are requested in a made-up language, in which each text of the catalogue is put in brackets. Text outside of
brackets was never looked up.
"""

from __future__ import annotations

import gettext
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import Flask, render_template
from pydantic import SecretStr
from sqlalchemy import text

from tasks import i18n
from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import NewCall
from tasks.ledger.errors import Category
from tasks.ledger.jobs import retention, transitions
from tests.support.mail_site import MAILING, link_in, owed_mails
from tests.web.conftest import Browser, Person, Program, WebHarness

FACT = re.compile(r"(%\(\w+\)s|\{\w+\})")
IN_WORDS = ("aria-label", "title", "placeholder", "alt")
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "source", "wbr"})
NOT_FOR_PEOPLE = frozenset({"style", "script", "code", "pre", "bdi", "textarea"})
NO_WORDS = re.compile(
    r"\S+@\S+|\S+\.example\.org|WB-\w{4}-\w{4}|\{\w+\}|\b\w+/[\w-]+\b"
    r"|\b\d+\.? \w+\.? \d{4}\b|\b[\d,.]+ (?:s|min|h|kB|MB)\b|\bUTC\b"
    r"|\bWaybill(?: API)?\b|\bMarkdown\b|\bWord\b|\bCSV\b|\bEnglish\b|\bDeutsch\b|\bHarbour ID\b|\bhttps://"
)


class Bracketed(gettext.NullTranslations):
    """Represents a language in which each text is the English text in brackets, without the facts in it."""

    def gettext(self, message: str) -> str:
        return "".join(part if FACT.fullmatch(part) else f"⟦{part}⟧" for part in FACT.split(message) if part)

    def ngettext(self, one: str, many: str, number: int) -> str:
        return self.gettext(one if number == 1 else many)


class Reader(HTMLParser):
    """Collects the texts outside of brackets that a user reads or hears, but not those without a known language."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag not in VOID:
            foreign = given.get("lang", "de") != "de"
            self._open.append((tag, self.is_skipped or foreign or tag in NOT_FOR_PEOPLE))
        if self.is_skipped:
            return
        for name, value in attributes:
            is_text = name in IN_WORDS or (name.startswith("data-") and re.search("[A-Z ]", value or ""))
            if is_text or (name == "value" and tag == "input" and given.get("type") in ("submit", "button")):
                self._look(value or "", 0)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self.is_skipped:
            self._depth = self._look(data, self._depth)

    @property
    def is_skipped(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def _look(self, content: str, depth: int) -> int:
        outside = ""
        for letter in content:
            depth += (letter == "⟦") - (letter == "⟧")
            outside += " " if depth or letter == "⟧" else letter
        outside = " ".join(outside.split())
        if re.search(r"[^\W\d_]{2}", NO_WORDS.sub(" ", outside)):
            self.left.append(outside)
        return depth


def left_in(html: str) -> set[str]:
    reader = Reader()
    reader.feed(html)
    return set(reader.left)


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    catalogues = {i18n.ENGLISH: gettext.NullTranslations()}
    monkeypatch.setattr(i18n, "_catalogue", lambda code: catalogues.get(code, Bracketed()))
    yield


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("<p>⟦Kept until⟧ <time>12:03 UTC</time>⟦.⟧</p>", set()),
        ('<p>⟦Keep <a href="/x">this address</a> safe.⟧</p><h1 lang="">My report</h1>', set()),
        ("<p>⟦Kept until⟧ forgotten</p>", {"forgotten"}),
        ('<button aria-label="Forgotten">⟦Go⟧</button>', {"Forgotten"}),
        ('<body data-not-sent="It did not arrive." data-state="queued">', {"It did not arrive."}),
    ],
)
def test_a_text_that_was_not_looked_up_is_found(html: str, left: set[str]) -> None:
    assert left_in(html) == left


class Walk:
    """Represents a user who reads German and visits pages. `left` holds the text outside of brackets by page."""

    def __init__(self, app: Flask, database: Database, account_id: uuid.UUID) -> None:
        self.app, self.database = app, database
        self.somebody, self.ada = Browser(app), Person(app, account_id)
        for visitor in (self.somebody, self.ada):
            visitor.client.environ_base["HTTP_ACCEPT_LANGUAGE"] = "de"
        self.left: dict[str, set[str]] = {}

    def read(self, page: str, html: str) -> str:
        assert "⟦" in html, page
        if left := left_in(html):
            self.left[page] = left
        return html

    def see(self, *paths: str, by: Browser | None = None) -> str:
        return [self.read(path, (by or self.ada).get(path, follow_redirects=True).text) for path in paths][-1]

    def send(self, path: str, fields: dict[str, Any] | None = None, *, by: Browser | None = None) -> None:
        self.read(f"POST {path} {fields}", (by or self.ada).post(path, fields, follow_redirects=True).text)

    def do(self, statement: str) -> None:
        with self.database.transaction() as session:
            session.execute(text(statement))


@pytest.fixture
def walk(make_app: Callable[..., Flask], database: Database, account_id: uuid.UUID, bracketed: None) -> Walk:
    service = {"oidc_issuer": "https://id.example.org", "oidc_client_id": "w", "oidc_client_secret": SecretStr("s")}
    app = make_app(**MAILING, **service, oidc_label="Harbour ID", jobs_per_day=50)
    return Walk(app, database, account_id)


def test_pages_about_a_job(walk: Walk, bench: WebHarness, database: Database, account_id: uuid.UUID) -> None:
    job = bench.job
    queued, running, cancelling, cancelled = job(title="1"), job(title="2"), job(title="3"), job(title="4")
    claim, done = bench.claim(running), bench.succeeded(title="5", cut_off=True)
    failed = [bench.failed(cause, title="6") for cause in (Category.QUOTA, Category.TIMEOUT, Category.INVALID_DOCUMENT)]
    bench.claim(cancelling)
    with database.transaction() as session:
        transitions.cancel(session, cancelling, account_id)
        transitions.cancel(session, cancelled, account_id)
    walk.see("/", "/?show=saved&q=nothing", "/?before=x")
    walk.see(
        *(f"/jobs/{job_id}" for job_id in (queued, running, cancelling, cancelled, done, *failed)),
        f"/jobs/{done}/delete",
    )
    bench.read(claim, done=1, total=3)
    walk.see(f"/jobs/{running}", f"/jobs/{running}/delete", f"/jobs/{queued}?known=1")
    with database.transaction() as session:
        calls.open_call(
            session, running, claim.generation, NewCall("summarise", "p", "p", "m", limit=4, probe_seconds=9)
        )
        transitions.retry_later(session, claim, category=Category.UNCERTAIN, delay_seconds=30)
    walk.see(f"/jobs/{running}")
    walk.do("UPDATE deliveries SET not_before = now() - interval '100 seconds'")
    walk.see(f"/jobs/{queued}", f"/jobs/{running}")
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code=None)
    with database.transaction() as session:
        transitions.claim(session, queued, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    walk.see(f"/jobs/{queued}")
    walk.do("UPDATE jobs SET finished_at = finished_at - interval '31 days' WHERE finished_at IS NOT NULL")
    with database.transaction() as session:
        retention.delete_content(session, done, days=30)
        retention.delete_content(session, failed[0], days=30)
    walk.see(f"/jobs/{done}", f"/jobs/{failed[0]}", f"/jobs/{done}/delete", f"/jobs/{done}/result.md")
    walk.send("/jobs", {"text": ""})
    walk.send("/jobs", {"text": "1", "csrf_token": "old"})
    walk.send(f"/jobs/{failed[1]}/cancel")
    assert walk.left == {}


def test_pages_of_an_account(walk: Walk, database: Database, account_id: uuid.UUID) -> None:
    walk.see("/", "/account", "/account/notices", "/nowhere", "/api/docs")
    for fields in ({"name": ""}, {"name": "1"}):
        walk.send("/account/tokens", fields)
    walk.send("/account/language", {"language": "de"})
    walk.send("/account/password", {"password": "wrong", "new": "1"})
    walk.send("/account/delete", {})
    walk.send("/account/notices/email", {"on": "yes"})
    confirming = link_in(walk.app, owed_mails(database)[-1])
    walk.see(confirming)
    walk.send(confirming)
    walk.send("/account/notices/webhook", {"url": "http://x"})
    walk.send("/account/notices/webhook", {"url": "https://hooks.example.org/1"})
    for channel in ("email", "webhook"):
        walk.send("/account/notices/test", {"channel": channel})
    walk.do("UPDATE notices SET error_code = 'timeout'")
    walk.see("/account/notices")
    walk.do("UPDATE notices SET gave_up_at = now()")
    walk.see("/account/notices")
    walk.do("UPDATE accounts SET password_hash = '-'")
    walk.see("/account")
    assert walk.left == {}


def test_pages_before_sign_in(walk: Walk, database: Database, make_app: Callable[..., Flask]) -> None:
    there = walk.somebody
    walk.see("/login", "/login?next=/account", "/register", "/reset", "/nowhere", "/register/x", "/reset/x", by=there)
    walk.send("/login", {"email": "x@example.org", "password": "1"}, by=there)
    walk.send("/login", {"csrf_token": "old"}, by=there)
    walk.send("/register", {"email": "x"}, by=there)
    walk.send("/reset", {"email": "x"}, by=there)
    walk.send("/register", {"email": "new@example.org"}, by=there)
    walk.see(link_in(walk.app, owed_mails(database)[-1]), by=there)
    walk.do("UPDATE accounts SET email = 'ada@example.org'")
    walk.send("/reset", {"email": "ada@example.org"}, by=there)
    walk.see(link_in(walk.app, owed_mails(database)[-1]), by=there)
    for registration in ("invite", "closed"):
        closed = Browser(make_app(registration=registration))
        closed.client.environ_base["HTTP_ACCEPT_LANGUAGE"] = "de"
        walk.see("/register", "/invitation/x", by=closed)
    with walk.app.test_request_context(headers={"Accept-Language": "de"}):
        walk.app.preprocess_request()
        walk.read(
            "accounts/link_sign_in_service.html",
            render_template("accounts/link_sign_in_service.html", service="Harbour ID"),
        )
        walk.read(
            "http/rate_limited.html",
            render_template("http/rate_limited.html", again=datetime.now(UTC), wait=72, form="/login"),
        )
    assert walk.left == {}


def test_pages_of_an_upload_link(walk: Walk, program: Program, bench: WebHarness, database: Database) -> None:
    terms = {"max_uses": 2, "return_url": "https://www.example.org/x"}
    made = program.ask("POST", "/upload-links", json=terms).json
    path = made["upload_url"].removeprefix("http://localhost")
    there = walk.somebody
    form_token = re.search(r'name="form_token" value="([^"]+)"', walk.see(path, by=there))
    assert form_token
    for fields in (
        {"form_token": "old"},
        {"form_token": form_token[1], "text": ""},
        {"form_token": form_token[1], "text": "1"},
    ):
        answer = there.client.post(path, data=fields, content_type="multipart/form-data")
        walk.read(f"POST {path} {fields}", there.get(answer.location).text if answer.location else answer.text)
    seen = answer.location
    walk.do("UPDATE jobs SET title = '1'")
    for change in (
        "UPDATE deliveries SET not_before = now() - interval '100 seconds'",
        "UPDATE upload_links SET expires_at = now() - interval '1 second'",
        "UPDATE upload_links SET revoked_at = now()",
    ):
        walk.do(change)
        walk.see(path, seen, by=there)
    assert walk.left == {}
