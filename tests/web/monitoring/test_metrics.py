"""Tests /metrics: figures of the rows, for clients with the token, in Prometheus' format, and cheap."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from sqlalchemy import Connection, event, text

from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.states import CallOutcome
from tests.support import factories
from tests.web.conftest import Browser, WebHarness
from webapp.extensions import db

TOKEN = "a token of the test's own"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def watched(make_app: Callable[..., Flask]) -> Browser:
    return Browser(make_app(metrics_token=SecretStr(TOKEN)))


def scrape(watched: Browser) -> Samples:
    answer = watched.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.name.startswith("waybill_") and family.documentation and family.type == "gauge", family
        for sample in family.samples:
            key = (sample.name.removeprefix("waybill_"), frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def at(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_without_the_setting_there_is_no_such_page(browser: Browser) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}"}):
        assert browser.get("/metrics", headers=headers).status_code == 404


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer ü"]
)
def test_a_wrong_token_is_refused_and_learns_nothing(watched: Browser, given: str | None) -> None:
    answer = watched.get("/metrics", headers={} if given is None else {"Authorization": given})
    assert (answer.status_code, answer.data) == (401, b"")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_an_empty_site_says_zero(watched: Browser, database: Database) -> None:
    samples = scrape(watched)
    for state in ("queued", "running", "retry_wait", "cancel_requested"):
        assert at(samples, "jobs", state=state) == 0
    for name in ("orphans", "oldest_queued_seconds", "deliveries_owed", "deliveries_overdue", "active_claims"):
        assert at(samples, name) == 0, name
    assert at(samples, "workers", state="alive") == 0
    assert at(samples, "lane", lane=f"{factories.QUEUE}:local", state="open") == 1
    assert at(samples, "jobs_ended_last_hour", state="failed", category="") == 0


def test_the_figures_are_those_of_the_rows(watched: Browser, bench: WebHarness, database: Database) -> None:
    bench.succeeded("Secret words.", title="Secret title")
    bench.failed(Category.OVERLOADED)
    bench.waiting(Category.TIMEOUT)
    bench.job()
    late, running = bench.job(), bench.job()
    claim = bench.claim(running)
    with database.transaction() as session:
        call = calls.open_call(session, running, claim.generation, factories.CALL)
        assert not isinstance(call, lanes.Closed | lanes.Full) and call is not None
        report = CallReport(CallOutcome.UNKNOWN, category=Category.CONNECTION, input_tokens=11, output_tokens=7)
        calls.close_call(session, call, report)
        calls.open_call(session, running, claim.generation, factories.CALL)
        lanes.stop(session, f"{factories.QUEUE}:local", category=Category.QUOTA, code=None)
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
        leases.record_heartbeat(session, "silent", queue=factories.QUEUE, slots=1)
        session.execute(text("UPDATE workers SET seen_at = now() - interval '2 minutes' WHERE name = 'silent'"))
        session.execute(
            text(
                "UPDATE deliveries SET not_before = now() - interval '90 s', due_at = now() - interval '90 s'"
                " WHERE job_id = :id"
            ),
            {"id": late},
        )
    samples = scrape(watched)
    assert at(samples, "jobs", state="queued") == 2
    assert at(samples, "jobs", state="running") == at(samples, "active_claims") == 1
    assert at(samples, "jobs", state="retry_wait") == 1
    assert at(samples, "jobs_accepted_last_hour") == 6
    assert at(samples, "jobs_ended_last_hour", state="succeeded", category="") == at(samples, "results_last_hour") == 1
    assert at(samples, "jobs_ended_last_hour", state="failed", category="overloaded") == 1
    assert at(samples, "attempts_last_hour", outcome="succeeded") == 1
    assert at(samples, "attempts_last_hour", outcome="retry") == at(samples, "retries_last_hour") == 1
    assert at(samples, "provider_calls_last_hour", outcome="unknown", category="connection") == 1
    assert at(samples, "provider_calls_last_hour", outcome="open", category="") == 1
    assert at(samples, "uncertain_calls") == 1
    assert at(samples, "tokens_last_hour", direction="in") == 11
    assert at(samples, "tokens_last_hour", direction="out") == 7
    assert at(samples, "lane", lane=f"{factories.QUEUE}:local", state="stopped") == 1
    assert at(samples, "lane", lane=f"{factories.QUEUE}:local", state="open") == 0
    assert (at(samples, "workers", state="alive"), at(samples, "workers", state="stale")) == (1, 1)
    assert at(samples, "deliveries_owed") == 3 and at(samples, "deliveries_overdue") == 1
    assert 89 < at(samples, "oldest_queued_seconds") < 300
    assert at(samples, "waiting_count_last_hour") == 2 and at(samples, "working_count_last_hour") == 3
    assert at(samples, "working_seconds_last_hour", quantile="0.95") >= 0


def test_interruptions_and_orphans_are_counted(watched: Browser, bench: WebHarness, database: Database) -> None:
    handed_back, lost, orphan = bench.claim(bench.job()), bench.claim(bench.job()), bench.job()
    with database.transaction() as session:
        transitions.release(session, handed_back, reason="shutdown", interrupted=True)
        factories.let_the_lease_run_out(session, lost.job_id)
        transitions.expire(session, lost.job_id, max_interruptions=5)
        session.execute(text("DELETE FROM deliveries WHERE job_id = :id"), {"id": orphan})
    samples = scrape(watched)
    assert at(samples, "interruptions_last_hour") == 2
    assert at(samples, "orphans") == 1


def test_the_documentation_names_each_of_them(watched: Browser, bench: WebHarness) -> None:
    bench.succeeded()
    documented = set(re.findall(r"waybill_(\w+)", (factories.ROOT / "docs" / "watching.md").read_text()))
    assert documented == {name for name, _ in scrape(watched)}


def test_no_label_holds_what_a_person_wrote(watched: Browser, bench: WebHarness) -> None:
    bench.succeeded("Secret words.", title="Secret title")
    bench.failed(Category.INVALID_DOCUMENT, "secret_code", title="Secret title")
    page = watched.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    assert "ecret" not in page and "example.org" not in page and "harbour" not in page


def test_no_table_that_grows_with_the_site_is_read_from_end_to_end(watched: Browser, bench: WebHarness) -> None:
    """Make sequential scans expensive, so that a remaining one has no index to use."""
    bench.succeeded()
    asked: list[tuple[str, object]] = []
    with watched.client.application.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", lambda *seen: asked.append((seen[2], seen[3])))
    scrape(watched)
    selects = [(sql, given) for sql, given in asked if sql.lstrip().upper().startswith("SELECT")]
    assert len(selects) > 8
    tables = ("jobs", "attempts", "provider_calls", "events", "results", "documents")

    def read_from_end_to_end(connection: Connection) -> set[str]:
        plans = [str(connection.exec_driver_sql(f"EXPLAIN {sql}", given).all()) for sql, given in selects]
        return {table for table in tables for plan in plans if f"Seq Scan on {table}" in plan}

    with engine.connect() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        assert read_from_end_to_end(connection) == set()
        connection.exec_driver_sql("DROP INDEX ended_attempts_by_end")
        assert read_from_end_to_end(connection) == {"attempts"}, "the negative control"


def test_a_database_that_is_away_is_an_error_and_no_figure(make_app: Callable[..., Flask], settings) -> None:
    from webapp.local.ports import free_port

    nowhere = type(settings.database_url)(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    alone = Browser(make_app(metrics_token=SecretStr(TOKEN), database_url=nowhere))
    answer = alone.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503 and "waybill_" not in answer.text
