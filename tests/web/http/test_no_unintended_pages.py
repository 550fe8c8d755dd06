"""Tests what a stranger and an ordinary user find where scanners look for consoles: only a bare health response."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from pydantic import SecretStr

from tasks.database import Database
from tasks.ledger.jobs import leases
from tests.support import factories
from tests.web.conftest import Browser, Person, WebHarness

KNOWN_TO_SCANNERS = [
    *("/rq", "/rq/", "/rq-dashboard", "/rq/0/view/queues", "/dashboard", "/admin", "/admin/", "/admin/jobs"),
    *("/flower", "/flower/", "/jobs", "/sidekiq", "/resque", "/horizon", "/queues", "/metrics", "/prometheus"),
    *("/health", "/healthcheck", "/debug", "/debug/", "/console", "/_status", "/status", "/server-status", "/info"),
    *("/.env", "/.git/config", "/env", "/actuator", "/actuator/health", "/api", "/api/", "/api/v1", "/swagger.json"),
]
OPEN_TO_ANYBODY = {
    *("/healthz", "/readyz", "/login", "/register", "/logout", "/static/<path:filename>"),
    *("/register/<token>", "/invitation/<token>"),  # these tokens do not exist: a form, or the way to one
    *("/api/docs", "/api/openapi.json"),
}


@pytest.fixture
def watched(make_app: Callable[..., Flask]) -> Flask:
    """Create a site with every optional page enabled."""
    return make_app(rq_dashboard_enabled=True, metrics_token=SecretStr("a token of the test's own"))


def every_address(app: Flask, job_id: uuid.UUID) -> Iterator[tuple[str, str, str]]:
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<uuid:[^>]+>", str(job_id), rule.rule)
        path = re.sub(r"<int:[^>]+>", "0", path)
        for method in sorted((rule.methods or set()) & {"GET", "POST", "DELETE", "PUT", "PATCH"}):
            yield rule.rule, method, re.sub(r"<[^>]+>", "x", path)


def test_there_is_nothing_where_scanners_look(app: Flask, watched: Flask, ada: Person) -> None:
    for site, others in ((app, {}), (watched, {"/metrics": (401, 405)})):
        expected = {"/jobs": (400, 405), **others}  # /jobs accepts forms, with their CSRF token
        for who in (Person(site, ada.id), Browser(site)):
            for path in KNOWN_TO_SCANNERS:
                for method in ("GET", "POST"):
                    status = who.client.open(path, method=method).status_code
                    assert status in expected.get(path, (404, 405)), (method, path)


def test_a_stranger_is_let_in_nowhere_and_a_plain_person_not_into_the_operation(
    watched: Flask, ada: Person, bench: WebHarness
) -> None:
    foreign = bench.job(title="Secret title")
    nobody, plain = Browser(watched), Person(watched, ada.id)
    asked = set()
    for rule, method, path in every_address(watched, foreign):
        if rule in OPEN_TO_ANYBODY:
            continue
        asked.add(rule)
        answer = nobody.client.open(path, method=method)
        assert answer.status_code in (302, 400, 401, 404), (method, path)
        assert answer.status_code != 302 or answer.location.startswith("/login"), path
        assert "Secret" not in answer.text, path
        if rule == "/ops" or rule.startswith("/ops/"):
            assert plain.client.open(path, method=method).status_code == 404, (method, path)
    assert {"/", "/jobs/<uuid:job_id>", "/ops", "/ops/rq/", "/ops/rq/requeue/<queue_name>", "/metrics"} <= asked


def test_the_health_answers_are_bare(app: Flask, database: Database, bench: WebHarness, browser: Browser) -> None:
    bench.job()
    assert browser.get("/healthz").data == b"ok\n"
    missing = browser.get("/readyz")
    assert (missing.status_code, missing.json) == (503, {"ready": False, "missing": ["worker"]})
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
    ready = browser.get("/readyz")
    assert (ready.status_code, ready.json) == (200, {"ready": True, "missing": []})
    for answer in (missing, ready):
        assert not re.search(r"\d", answer.text), "no counts, versions or ids"


def test_readyz_says_what_is_missing_in_words_alone(make_app: Callable[..., Flask], settings) -> None:
    from webapp.local.ports import free_port

    gone = Browser(
        make_app(
            redis_url=SecretStr(f"redis://u:hunter2@127.0.0.1:{free_port()}/0"),
            database_url=SecretStr(f"postgresql://u:hunter2@127.0.0.1:{free_port()}/x"),
        )
    )
    assert gone.get("/healthz").status_code == 200
    answer = gone.get("/readyz")
    assert (answer.status_code, answer.json) == (503, {"ready": False, "missing": ["database", "redis"]})
