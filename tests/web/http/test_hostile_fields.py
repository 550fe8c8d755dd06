"""Tests that any value of a field, query or body gets a proper response: every route, every field, as an operator."""

from __future__ import annotations

import inspect
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from pydantic import SecretStr
from werkzeug.datastructures import MultiDict

from tasks.database import Database
from tasks.ledger.errors import Category
from tests.support import factories
from tests.web.conftest import Browser, Person, Program, WebHarness
from webapp.accounts import forms
from webapp.auth import api_tokens, invitations
from webapp.extensions import limiter
from webapp.http import form_fields
from webapp.models import Role
from webapp.upload_links import links, signed_urls
from webapp.upload_links.links import LinkTerms

DIGITS = "9" * 5000
HOSTILE = {
    "nothing": b"",
    "five thousand digits": DIGITS.encode(),
    "beyond 64 bits": b"9223372036854775808",
    "just within 64 bits": b"9223372036854775807",
    "negative": b"-1",
    "arabic digits": "\u0661\u0662".encode(),
    "infinite": b"1e400",
    "a NUL": b"1\x001",
    "a lone surrogate": "\ud800".encode("utf-8", "surrogatepass"),
    "no UTF-8": b"\xff\xfe",
    "line ends": b"a\r\nSet-Cookie: x=1",
}
WORST = {
    about: HOSTILE[about]
    for about in ("five thousand digits", "beyond 64 bits", "negative", "a NUL", "a lone surrogate")
}
"""The values for each of the many pages that only read."""
LONG = b"x" * 1_000_000
NUMBERS = [
    "9" * 5000,
    "-1",
    "1e400",
    "-0",
    "1.5",
    "NaN",
    "9223372036854775808",
    '"\\ud800"',
    '"\\u0000"',
    '""',
    "[]",
    "{}",
]
NUMBERS += ["null", "true", '"\u0661"', "[" * 5000 + "]" * 5000, json.dumps("x" * 1_000_000), f'"{DIGITS}"']
SOURCES = Path(forms.__file__).parents[1]
NOT_ASKED = {"accounts.sign_out", "accounts.sign_out_everywhere"}
"""Left out: they have no fields, and end the session that sends the requests."""


@pytest.fixture
def fuzzed(make_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch) -> Flask:
    """Create a site with every feature enabled and without rate limits."""
    app = make_app(
        rq_dashboard_enabled=True,
        metrics_token=SecretStr("a token of the test's own"),
        api_requests_per_minute=10**6,
        registration="invite",
        smtp_host="127.0.0.1",
        mail_from="waybill@example.org",
        app_base_url="http://localhost",
    )
    monkeypatch.setattr(limiter, "enabled", False)
    return app


@pytest.fixture
def olga(fuzzed: Flask, database: Database) -> Person:
    with database.transaction() as session:
        factories.make_account(session, role=Role.OPERATOR)
        return Person(fuzzed, factories.make_account(session, email="olga@example.org", role=Role.OPERATOR))


@pytest.fixture
def known(fuzzed: Flask, olga: Person, database: Database) -> dict[str, str]:
    """Return an existing value for each parameter of a route."""
    bench = WebHarness(database, olga.id)
    terms = LinkTerms("n", "summary", {"length": "medium", "form": "prose"}, 3600, 5, [], None, True)
    job_id, failed = bench.succeeded(), bench.failed(Category.INTERNAL)
    with fuzzed.test_request_context(), database.transaction() as session:
        link_id = links.make_link(session, olga.id, terms, kept_days=30)
        links.take_use(session, link_id, job_id)
        return {
            "job_id": str(job_id),
            "failed": str(failed),
            "what": "enable",
            "account_id": str(olga.id),
            "link_id": str(link_id),
            "receipt": links.receipt_of(link_id, job_id),
            "token": signed_urls.sign(signed_urls.LINK, link_id),
            "invitation": invitations.invite(session, email=None, made_by=None, days=1),
            "api": api_tokens.make_token(session, olga.id, "test"),
        }


def fields_in_sources() -> set[str]:
    """Return the name of every field that the code reads from a form or a query."""
    reading = r"""(?:form|args|fields|arguments|given)(?:\.get|\.getlist|\.pop)?[\[(]\s*["'](\w+)["']"""
    called = r"""(?:number_asked|number_in_query|_query_value|text_of|flag_of|number_of)\((?:fields, )?["'](\w+)["']"""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        for pattern in (reading, called):
            found |= set(re.findall(pattern, path.read_text()))
    return found


def test_the_fields_are_found() -> None:
    assert {
        "rev",
        "before",
        "limit",
        "wait",
        "revision",
        "max_uses",
        "at_once",
        "days",
        "email",
        "q",
    } <= fields_in_sources()


def addresses(app: Flask, known: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Return endpoint, method and URL of every route, with an existing value for each parameter."""
    for rule in app.url_map.iter_rules():
        if rule.endpoint in NOT_ASKED:
            continue
        path = re.sub(r"<int:[^>]+>", "1", rule.rule)
        path = re.sub(r"<(?:uuid:)?(\w+)>", lambda gap: known.get(gap[1], str(uuid.uuid4())), path)
        path = re.sub(r"<[^>]+>", "x", path)
        for method in sorted((rule.methods or set()) & {"GET", "POST", "DELETE", "PUT", "PATCH"}):
            yield rule.endpoint, method, path


def assert_answered(answer: Any, *what: object) -> None:
    """Check that the response is no server error. In tests, an exception fails the test by itself."""
    assert answer.status_code != 500, what
    answer.close()


def encoded(fields: dict[str, bytes]) -> bytes:
    return "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_every_query_of_every_page(fuzzed: Flask, olga: Person, known: dict[str, str]) -> None:
    names = sorted(fields_in_sources() - {"note", "password", "new", "csrf_token"})
    program = Program(fuzzed, known["api"])
    asked = 0
    for endpoint, method, path in addresses(fuzzed, known):
        if method != "GET" or endpoint == "static":
            continue
        source = inspect.getsource(sys.modules[inspect.unwrap(fuzzed.view_functions[endpoint]).__module__])
        read = [name for name in ("rev", "before", "q", "after", "account") if f'"{name}"' in source]
        for about, value in WORST.items():
            if path.startswith("/api/v1"):
                for name in ("limit", "before", "wait", "revision", "state"):
                    answer = program.ask("GET", f"{path.removeprefix('/api/v1')}?{name}={quote(value)}")
                    assert_answered(answer, path, name, about)
                continue
            answer = olga.get(f"{path}?{encoded(dict.fromkeys(names, value)).decode()}")
            assert_answered(answer, path, about)
            for name in read:
                assert_answered(olga.get(f"{path}?{name}={quote(value)}"), path, name, about)
            asked += 1
    assert asked > 200


class Forms(HTMLParser):
    """The forms of a page: their URLs and the values of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, MultiDict[str, str]]] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        if tag == "form" and about.get("method") == "post":
            self.found.append((about.get("action", ""), MultiDict()))
        elif self.found and (name := about.get("name")):
            fields = self.found[-1][1]
            if tag == "select":
                self._select = name
            elif about.get("type") not in ("checkbox", "radio") or "checked" in about or name not in fields:
                fields.setlist(name, [about.get("value", "") or "a"])
        if tag == "option" and self._select and self.found:
            self.found[-1][1].setdefault(self._select, about.get("value", ""))
        if "formaction" in about and self.found:
            self.found.append((about["formaction"], self.found[-1][1].copy()))


def forms_of(olga: Person, app: Flask, known: dict[str, str]) -> list[tuple[str, MultiDict[str, str]]]:
    """Return every form that sends something, on every page that a stranger or an operator can see."""
    found: dict[str, MultiDict[str, str]] = {}
    stranger = Browser(app)
    for _, method, path in addresses(app, known):
        if method != "GET" or path.startswith(("/static", "/api", "/ops/rq")):
            continue
        for browser in (olga, stranger):
            answer = browser.get(path)
            if answer.status_code == 200 and answer.mimetype == "text/html":
                parser = Forms()
                parser.feed(answer.text)
                for action, fields in parser.found:
                    found.setdefault(action or path, fields)
    replays = [f"/ops/replays/new?job={known['failed']}", "/ops/replays/new?category=internal&code=%00"]
    for page in (*replays, f"/invitation/{known['invitation']}"):
        parser = Forms()
        parser.feed((olga if "ops" in page else stranger).get(page).text)
        found.update({action: fields for action, fields in parser.found if action})
    return sorted(found.items())


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_every_field_of_every_form_with_the_others_as_they_are(
    fuzzed: Flask, olga: Person, known: dict[str, str]
) -> None:
    every = forms_of(olga, fuzzed, known)
    seen = {action for action, _ in every}
    assert {"/login", "/register", "/reset", "/jobs", "/account/password", "/ops/work/resume", "/ops/replays"} <= seen
    assert {f"/ops/accounts/{olga.id}/limits", f"/ops/accounts/{olga.id}/disable"} <= seen
    sent = 0
    for action, fields in every:
        if action in ("/logout", "/account/sessions/end"):
            continue
        who = Browser(fuzzed) if action in ("/login", "/register", "/reset") else olga
        page = "/login" if who is not olga else "/account"
        for name in [name for name in fields if name != "csrf_token"]:
            for about, value in HOSTILE.items():
                form = {other: one.encode() for other, one in fields.items() if other != "csrf_token"} | {name: value}
                csrf_token = {"csrf_token": who.token(page).encode()}
                answer = who.client.post(
                    action, data=encoded(form | csrf_token), content_type="application/x-www-form-urlencoded"
                )
                assert_answered(answer, action, name, about)
                sent += 1
    assert sent > 400 and olga.get("/account").status_code == 200


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_every_route_with_everything_hostile_at_once(fuzzed: Flask, olga: Person, known: dict[str, str]) -> None:
    names = sorted(fields_in_sources() - {"csrf_token"})
    program = Program(fuzzed, known["api"])
    for _, method, path in addresses(fuzzed, known):
        for about, value in WORST.items():
            if method == "GET" or (method == "DELETE" and about != "negative"):
                continue
            body = encoded({**dict.fromkeys(names, value), "csrf_token": olga.token("/account").encode()})
            content = {"data": body, "content_type": "application/x-www-form-urlencoded"}
            assert_answered(olga.client.open(path, method=method, **content), method, path, about)
            if path.startswith("/api/v1"):
                assert_answered(program.ask(method, path.removeprefix("/api/v1"), **content), method, path, about)
    assert olga.get("/account").status_code == 200


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_megabyte_in_a_field(fuzzed: Flask, olga: Person, known: dict[str, str]) -> None:
    for action, fields in forms_of(olga, fuzzed, known):
        names = [name for name in fields if name != "csrf_token"]
        if not names or action in ("/logout", "/account/sessions/end"):
            continue
        form = {name: one.encode() for name, one in fields.items() if name != "csrf_token"}
        form |= {names[0]: LONG, "csrf_token": olga.token("/account").encode()}
        answer = olga.client.post(action, data=encoded(form), content_type="application/x-www-form-urlencoded")
        assert_answered(answer, action, names[0])


BODIES: dict[str, dict[str, Any]] = {
    "/jobs": {"text": "Words.", "title": "t", "workflow": "summary", "options": {"length": "short"}},
    "/upload-links": {
        **{"name": "n", "workflow": "summary", "options": {}, "expires_in": 3600, "max_uses": 1},
        **{"frame_origins": [], "return_url": None, "show_result": False},
    },
}


@pytest.mark.parametrize("path", BODIES)
def test_every_field_of_every_body(fuzzed: Flask, known: dict[str, str], path: str) -> None:
    program = Program(fuzzed, known["api"])
    for name in (*BODIES[path], "length"):
        for value in NUMBERS:
            others = {other: one for other, one in BODIES[path].items() if other != name}
            if name == "length":
                others["options"] = "HERE"
                body = json.dumps(others).replace('"HERE"', f'{{"length": {value}}}')
            else:
                body = json.dumps({**others, name: "HERE"}).replace('"HERE"', value)
            answer = program.ask("POST", path, data=body.encode(), content_type="application/json")
            assert_answered(answer, path, name, value[:40])
    for body in NUMBERS:
        answer = program.ask("POST", path, data=body.encode(), content_type="application/json")
        assert_answered(answer, path, body[:40])


@pytest.mark.parametrize("header", ["Idempotency-Key", "Authorization", "HX-Current-URL", "Accept-Language", "Cookie"])
def test_every_header_that_is_read(fuzzed: Flask, olga: Person, known: dict[str, str], header: str) -> None:
    for value in (DIGITS, "-1", "\xff", "a" * 8000, "Bearer " + DIGITS, "http://[", "session=.; device=."):
        for path in ("/", "/login", "/ops"):
            assert_answered(olga.get(path, headers={header: value, "HX-Request": "true"}), header, path, value[:40])
        answer = Browser(fuzzed).client.get("/api/v1/jobs", headers={header: value})
        assert_answered(answer, header, value[:40])


@pytest.mark.parametrize(
    ("typed", "read"), [("7", 7), ("١٢", None), ("-1", None), ("+1", None), (" 7", None), ("", None)]
)
def test_a_number_is_what_stands_in_ascii_digits(typed: str, read: int | None) -> None:
    assert form_fields.number_in(typed, 10) == read


def test_without_its_bound_a_number_of_five_thousand_digits_is_a_fault(
    olga: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the test can fail: without the limit of digits, the number is an error."""
    assert olga.post("/ops/work/resume", {"at_once": DIGITS}).status_code == 422
    monkeypatch.setattr(form_fields, "MAX_DIGITS", 10**9)
    with pytest.raises(ValueError, match="digits"):
        olga.post("/ops/work/resume", {"at_once": DIGITS})
