"""Tests who may see a page, and what caches may keep of it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from sqlalchemy import select

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.models import Job
from tests.web.conftest import Browser, Person, WebHarness, rows

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def job_addresses(app: Flask, job_id: object) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        if "job_id" in rule.arguments and not rule.rule.startswith(("/api/", "/ops/")):
            for method in sorted((rule.methods or set()) & {"GET", "POST"}):
                yield method, re.sub(r"<[^>]+>", str(job_id), rule.rule)


def ask(person: Browser, method: str, path: str):
    return person.get(path) if method == "GET" else person.post(path)


def test_a_job_of_somebody_else_is_answered_like_one_that_never_was(
    app: Flask, ada: Person, bob: Person, bench: WebHarness, database: Database
) -> None:
    theirs = bench.succeeded("Secret words.", title="Secret title")
    failed = bench.failed(Category.OVERLOADED)
    before = rows(database, select(Job.id, Job.revision))
    for job_id in (theirs, failed):
        for (method, path), (_, missing) in zip(
            job_addresses(app, job_id), job_addresses(app, uuid.uuid4()), strict=True
        ):
            foreign, absent = ask(bob, method, path), ask(bob, method, missing)
            assert (foreign.status_code, absent.status_code) == (404, 404), path
            assert foreign.data == absent.data and "Secret" not in foreign.text
    assert len(list(job_addresses(app, theirs))) >= 6
    assert rows(database, select(Job.id, Job.revision)) == before
    assert ada.get(f"/jobs/{theirs}").status_code == 200


def test_without_the_owner_in_the_query_a_foreign_job_would_be_seen(
    bob: Person, bench: WebHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the test can fail: without the owner in the query, another account's job is shown."""
    from tasks.ledger.reports import job_views

    monkeypatch.setattr(job_views, "job_of", lambda session, job_id, account_id: job_views.any_job(session, job_id))
    monkeypatch.setattr(job_views, "result_of", lambda session, job_id, account_id: _any_result(session, job_id))
    job_id = bench.succeeded("Secret words.")
    assert bob.get(f"/jobs/{job_id}/result.md").text == "Secret words."


def _any_result(session, job_id):
    from tasks.ledger.models import Result

    return session.get(Result, job_id)


@pytest.mark.parametrize("broken", ["x", "1", "%00", "0" * 36, "..%2f..", "a" * 3000])
def test_a_malformed_id_is_answered_like_a_missing_one(ada: Person, broken: str) -> None:
    missing = ada.get(f"/jobs/{uuid.uuid4()}")
    answer = ada.get(f"/jobs/{broken}")
    assert answer.status_code == 404 and answer.data == missing.data


def test_a_list_shows_only_ones_own(ada: Person, bob: Person, bench: WebHarness) -> None:
    bench.job(title="Secret title")
    assert "Secret title" in ada.get("/").text and "Secret title" not in bob.get("/").text


def every_address(app: Flask, job_id: uuid.UUID) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        if rule.endpoint == "static" or rule.rule.startswith("/ops"):
            continue
        for method in sorted((rule.methods or set()) & {"GET", "POST"}):
            path = re.sub(r"<uuid:job_id>", str(job_id), rule.rule)
            yield method, re.sub(r"<[^>]+>", str(uuid.uuid4()), path)


def test_every_answer_has_the_headers_and_none_may_be_kept(
    app: Flask, ada: Person, browser: Browser, bench: WebHarness
) -> None:
    job_id = bench.succeeded()
    addresses = [*every_address(app, job_id), ("GET", "/nothing"), ("POST", "/"), ("GET", "/api/nothing")]
    for person in (ada, browser):
        for method, path in addresses:
            if path == "/logout":
                continue
            answer = ask(person, method, path)
            assert answer.status_code < 500 or path == "/readyz", path
            assert answer.headers["Content-Security-Policy"] == CSP, path
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            assert answer.headers["Referrer-Policy"] == "same-origin", path
            assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin", path
            assert "camera=()" in answer.headers["Permissions-Policy"], path
            assert answer.headers["Cache-Control"] == "private, no-store", path
            program = path.startswith("/api/") and path != "/api/docs"  # that page is for people
            varied = {"Authorization"} if program else {"HX-Request", "Cookie"}
            assert varied <= set(answer.headers["Vary"].split(", ")), path
            assert "Strict-Transport-Security" not in answer.headers, path


@pytest.mark.thorough
def test_only_the_queue_dashboard_has_a_policy_of_its_own_and_nothing_that_somebody_sees_may_be_kept(
    make_app: Callable[..., Flask], olga: Person, bench: WebHarness
) -> None:
    """Check that no page may be cached: results were readable by Back after signing out, and proxies shared them.

    Covers every URL as an operator, who gets a page from each; none of them is shown in a frame of another site.
    """
    app = make_app(rq_dashboard_enabled=True)
    person, job_id, asked = Person(app, olga.id), bench.succeeded(), 0
    person.token("/account")
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<[^>]+>", lambda gap: str(job_id) if "uuid" in gap[0] else "1", rule.rule)
        asking = {"GET", "POST"} if rule.rule.startswith("/api/v1") else {"GET", "HEAD", "OPTIONS", "POST"}
        for method in sorted((rule.methods or set()) & asking):
            answer = person.client.open(path, method=method)
            policy = answer.headers["Content-Security-Policy"]
            assert policy.endswith("frame-ancestors 'none'") and "default-src 'none'" in policy, path
            assert policy == CSP or path.startswith("/ops/rq"), path
            if not rule.endpoint.endswith(("static", "favicon")):
                assert "no-store" in answer.headers["Cache-Control"], (method, path)
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", path
            cookies = answer.headers.getlist("Set-Cookie")
            assert all(re.match("session=[^;]+; .*HttpOnly; Path=/; SameSite=Lax", cookie) for cookie in cookies), path
            answer.close()
            asked += answer.status_code == 200
    assert asked > 40


def test_what_is_not_an_ordinary_page_may_not_be_kept_either(ada: Person, bench: WebHarness) -> None:
    """Include errors under /static: they are pages with a link to the account, and browsers keep a 404."""
    job_id = bench.succeeded()
    ada.token("/account")
    answers = [
        *(
            ada.get(f"/jobs/{job_id}/{name}")
            for name in ("result.md", "result.txt", "result.docx", "original", "status")
        ),
        *(ada.get(path) for path in ("/static/nothing.js", "/nothing", f"/jobs/{uuid.uuid4()}", "//login")),
        *(ada.client.post(path) for path in ("/", "/jobs", "/login")),
        ada.post("/account/export"),
        ada.post("/logout"),
        ada.get(f"/jobs/{job_id}"),
    ]
    assert {answer.status_code for answer in answers} == {200, 302, 303, 308, 400, 404, 405}
    for answer in answers:
        assert answer.headers.get("Cache-Control") == "private, no-store", answer.request.path
        assert "Cookie" in answer.headers["Vary"]
        answer.close()


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT"])
def test_no_method_tells_a_foreign_job_from_a_missing_one(
    app: Flask, bob: Person, browser: Browser, bench: WebHarness, method: str
) -> None:
    """Check that the id of another account's job neither works nor shows that the job exists."""
    theirs, missing = bench.succeeded(), uuid.uuid4()
    for person in (bob, browser):
        person.get("/")
        for (_, path), (_, absent) in zip(job_addresses(app, theirs), job_addresses(app, missing), strict=True):
            one, other = person.client.open(path, method=method), person.client.open(absent, method=method)
            responses = [(a.status_code, a.data, {**a.headers, "Date": ""}) for a in (one, other)]
            assert str(responses[0]).replace(str(theirs), "") == str(responses[1]).replace(str(missing), ""), path


def test_https_is_kept_once_it_was_used(browser: Browser) -> None:
    answer = browser.get("/login", base_url="https://waybill.example")
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in browser.get("/login", base_url="https://localhost:8443").headers


@pytest.mark.parametrize("name", ["app.css", "app.js", "vendor/htmx-4.0.1.min.js", "icon.svg"])
def test_static_files_may_be_kept_for_ever_under_a_name_that_changes(browser: Browser, name: str) -> None:
    page = browser.get("/login").text
    address = re.search(rf'"(/static/{re.escape(name)}\?v=[0-9a-f]{{12}})"', page)
    assert address
    answer = browser.get(address[1])
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "max-age=31536000, public"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    answer.close()


def test_nothing_climbs_out_of_the_static_files(browser: Browser) -> None:
    for path in ("/static/../wsgi.py", "/static/%2e%2e/wsgi.py", "/static//etc/passwd", "/static/nothing.js"):
        assert browser.get(path, follow_redirects=True).status_code == 404


def test_pages_carry_no_inline_script_or_style(app: Flask, ada: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded()
    for path in (
        "/",
        f"/jobs/{job_id}",
        f"/jobs/{job_id}/delete",
        "/account",
        "/nothing",
        f"/jobs/{bench.waiting(Category.TIMEOUT)}",
    ):
        page = ada.get(path).text
        assert not re.search(r"<script(?! src=)|<style|\sstyle=|\son\w+=", page), path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page), "everything comes from this host"


def test_the_vendored_file_is_the_one_that_is_written_down() -> None:
    import hashlib
    from pathlib import Path

    folder = Path(__file__).parents[3] / "static" / "vendor"
    written = (folder / "VENDOR.md").read_text()
    for file in folder.glob("*.js"):
        assert f"`{file.name}`" in written and hashlib.sha256(file.read_bytes()).hexdigest() in written


@pytest.mark.parametrize("secret", [None, "", "short", "change-me", "   "])
def test_a_real_site_does_not_start_without_a_secret_of_its_own(
    make_app: Callable[..., Flask], settings, secret: str | None
) -> None:
    from tasks.settings import SettingsWrong

    wrapped = None if secret is None else type(settings.database_url)(secret)
    with pytest.raises(SettingsWrong, match="SECRET_KEY"):
        make_app(waybill_demo=False, secret_key=wrapped)


def test_sessions_survive_a_restart_with_the_same_secret(make_app: Callable[..., Flask], ada: Person, settings) -> None:
    secret = type(settings.database_url)("a long random text of our own")
    one, two = make_app(secret_key=secret), make_app(secret_key=secret)
    person = Person(one, ada.id)
    assert person.get("/").status_code == 200
    cookie = person.client.get_cookie("session")
    assert cookie is not None
    other = two.test_client()
    other.set_cookie("session", cookie.value)
    assert other.get("/").status_code == 200
