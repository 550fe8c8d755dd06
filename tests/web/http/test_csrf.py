"""Tests that other sites cannot make a browser change anything here: every change needs a CSRF token.

Covers every route, with each way in which such a token has been bypassed elsewhere.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.errors import Category
from tests.web.conftest import Browser, Person, WebHarness, job_id_in
from webapp.extensions import csrf

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
NO_COOKIE_COUNTS = ("/api/", "/embed/")
"""These use a token in a header, or a signed value in the form, that no other site can know; each has its own tests."""


def changes(app: Flask, job_id: uuid.UUID) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(NO_COOKIE_COUNTS):
            continue
        path = re.sub(r"<uuid:job_id>", str(job_id), rule.rule)
        path = re.sub(r"<(uuid:)?[^>]+>", lambda gap: str(uuid.uuid4()) if gap[1] else "x", path)
        for method in sorted((rule.methods or set()) & set(UNSAFE)):
            yield method, path


def everything(database: Database) -> list[Any]:
    """Return a fingerprint of everything that a form could change."""
    tables = ("accounts", "api_tokens", "jobs", "documents", "decisions", "invitations", "gates", "notices", "wishes")
    with database.transaction() as session:
        there = set(session.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars())
        known = [name for name in tables if name in there]
        assert len(known) >= 5
        return [
            session.execute(
                text(f"SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM {name} t")
            ).scalar_one()
            for name in known
        ]


def forged(other: str) -> dict[str, dict[str, Any]]:
    """Return what another site can make a browser send; `other` is a valid token that its owner got for themselves."""
    fields = {"email": "a@example.org", "password": "a long password", "text": "x", "sure": "yes", "name": "x"}
    return {
        "without a proof": {"data": fields},
        "with an empty one": {"data": {**fields, "csrf_token": ""}},
        "with somebody else's": {"data": {**fields, "csrf_token": other}},
        "with theirs in a header": {"data": fields, "headers": {"X-CSRFToken": other}},
        "as JSON": {"json": {**fields, "csrf_token": other}},
        "as text that reads as JSON": {"data": json.dumps(fields), "content_type": "text/plain"},
        "as a form with files": {"data": fields, "content_type": "multipart/form-data"},
        "by htmx's header": {"data": fields, "headers": {"HX-Request": "true"}},
        "with another method within": {
            "data": {**fields, "_method": "GET"},
            "headers": {"X-HTTP-Method-Override": "GET"},
        },
        "from another origin": {
            "data": fields,
            "headers": {"Origin": "https://evil.example", "Referer": "https://evil.example/"},
        },
    }


def test_nothing_changes_without_a_proof_of_origin(
    app: Flask, ada: Person, olga: Person, bob: Person, bench: WebHarness, database: Database
) -> None:
    asked = list(changes(app, bench.failed(Category.OVERLOADED)))
    assert len(asked) > 25
    ways = forged(bob.token("/account"))
    some = ("/jobs", "/login", "/account/tokens", "/account/delete", "/logout")
    for person in (ada, olga):
        person.token("/account")  # so that there is a token to compare with
        before = everything(database)
        for method, path in asked:
            for how, sent in ways.items() if path in some else [("with somebody else's", ways["with somebody else's"])]:
                answer = person.client.open(path, method=method, **sent)
                assert answer.status_code in (400, 404, 405), (method, path, how)
        assert everything(database) == before
    assert ada.get("/account").status_code == 200, "nobody was signed out"


def test_with_the_proof_it_would_change(ada: Person, bench: WebHarness, database: Database) -> None:
    """Check that the fingerprint and the walk can fail: the same form with its token changes something."""
    before = everything(database)
    job_id_in(ada.paste("x"))
    assert everything(database) != before


def test_without_the_guard_the_walk_would_notice(
    app: Flask, ada: Person, bench: WebHarness, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csrf, "protect", lambda **_: None)
    before = everything(database)
    assert ada.client.post("/account/tokens", data=forged("")["without a proof"]["data"]).status_code == 201
    assert everything(database) != before


def test_a_proof_in_the_address_is_none(ada: Person) -> None:
    """Refuse a token in the URL: it would be in logs and histories."""
    assert ada.client.post(f"/account/tokens?csrf_token={ada.token('/account')}", data={"name": "x"}).status_code == 400


def test_asking_never_changes_anything(app: Flask, ada: Person, bench: WebHarness, database: Database) -> None:
    """Check every URL by GET: programs follow links, and any page can embed an image."""
    job_id = bench.failed(Category.OVERLOADED)
    ada.get("/")
    before = everything(database)
    for _, path in changes(app, job_id):
        for method in ("GET", "HEAD", "OPTIONS"):
            answer = ada.client.open(f"{path}?_method=POST&mode=again&sure=yes", method=method)
            assert answer.status_code in (200, 302, 303, 404, 405), (method, path)
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/status", f"/jobs/{job_id}/delete", "/account", "/jobs/mine"):
        assert ada.get(path).status_code == 200
    assert everything(database) == before
    assert ada.get("/account").status_code == 200


def test_no_other_origin_may_read_an_answer(ada: Person, bench: WebHarness) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for path in ("/", "/login", f"/jobs/{bench.job()}", "/api/openapi.json", "/embed/x", "/static/app.css"):
        for method in ("GET", "OPTIONS", "POST"):
            answer = ada.client.open(path, method=method, headers=origin)
            assert "access-control-" not in str(answer.headers).lower(), path
            answer.close()


def test_a_token_counts_in_its_header_only(program: Any, browser: Browser) -> None:
    """Refuse a token in the URL: URLs are in logs, histories and Referer headers."""
    for name in ("access_token", "token", "api_key", "authorization", "bearer"):
        assert browser.get(f"/api/v1/jobs?{name}={program.token}").status_code == 401
        assert browser.get(f"/metrics?{name}={program.token}").status_code == 404
    for scheme in ("Basic", "Token", "Digest", ""):
        given = {"Authorization": f"{scheme} {program.token}".strip()}
        assert browser.get("/api/v1/jobs", headers=given).status_code == 401
