"""Tokens and cost are shown only to the people to whom the site shows them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tasks.database import Database
from tasks.ledger.calls import calls
from tasks.ledger.calls.calls import CallReport, NewCall
from tasks.ledger.reports import job_views
from tasks.ledger.states import CallOutcome
from tests.support import factories
from tests.web.conftest import Person, WebHarness
from webapp.auth import api_tokens
from webapp.models import Role

PRICES = "gpt-5-mini=1/2"
USAGE = "AI service: 1,234 tokens in, 210 out, 0.0017; of that wasted 0.0007; not reported for 1 call."


@pytest.fixture
def showing_usage(make_app: Callable[..., Flask]) -> Flask:
    """Return the app of a site that shows owners what their jobs used."""
    return make_app(show_cost_to_owner=True, model_prices=PRICES)


def asked(bench: WebHarness, database: Database, *reports: CallReport, provider: str = "openai") -> uuid.UUID:
    """Return a job that called the AI service once per report, with these outcomes."""
    job_id = bench.job()
    claim = bench.claim(job_id)
    for report in reports:
        call = NewCall("summarise", "local", provider, "gpt-5-mini", limit=16, probe_seconds=60)
        with database.transaction() as session:
            call_id = calls.open_call(session, job_id, claim.generation, call)
            assert isinstance(call_id, uuid.UUID)
            calls.close_call(session, call_id, report)
    return job_id


@pytest.fixture
def job_id(bench: WebHarness, database: Database) -> uuid.UUID:
    """Return a job with three calls: one was cut off, one lost its response, and one succeeded."""
    return asked(
        bench,
        database,
        CallReport(CallOutcome.SUCCEEDED, code="output_limit", input_tokens=500, output_tokens=100),
        CallReport(CallOutcome.UNKNOWN),
        CallReport(CallOutcome.SUCCEEDED, model="gpt-5-mini-2025-08-07", input_tokens=734, output_tokens=110),
    )


def test_an_owner_is_told_where_the_site_wants_it(
    showing_usage: Flask, ada: Person, account_id: uuid.UUID, job_id: uuid.UUID
) -> None:
    page = Person(showing_usage, account_id).get(f"/jobs/{job_id}").text
    assert USAGE in page
    assert "AI service:" not in ada.get(f"/jobs/{job_id}").text
    assert USAGE in Person(showing_usage, account_id).get(f"/jobs/{job_id}/status").text


def test_an_operator_is_told_always(app: Flask, database: Database, queue: Any) -> None:
    with database.transaction() as session:
        operator = Person(app, factories.make_account(session, role=Role.OPERATOR))
    job_id = asked(WebHarness(database, operator.id), database, CallReport(CallOutcome.SUCCEEDED, input_tokens=5))
    assert "AI service: 5 tokens in, 0 out." in operator.get(f"/jobs/{job_id}").text


def test_what_the_provider_does_not_report_is_not_made_up(
    showing_usage: Flask, account_id: uuid.UUID, bench: WebHarness, database: Database
) -> None:
    job_id = asked(bench, database, CallReport(CallOutcome.SUCCEEDED))
    assert "AI service: not reported." in Person(showing_usage, account_id).get(f"/jobs/{job_id}").text


def test_an_extract_made_here_reports_nothing_and_nothing_is_said_of_it(
    showing_usage: Flask, account_id: uuid.UUID, bench: WebHarness, database: Database
) -> None:
    job_id = asked(bench, database, CallReport(CallOutcome.SUCCEEDED, model="local"), provider="local")
    assert "AI service:" not in Person(showing_usage, account_id).get(f"/jobs/{job_id}").text
    with database.transaction() as session:
        token = api_tokens.make_token(session, account_id, "script")
    response = showing_usage.test_client().get(f"/api/v1/jobs/{job_id}", headers={"Authorization": f"Bearer {token}"})
    assert response.json is not None and response.json["usage"] is None


def test_programs_are_told_the_same(
    showing_usage: Flask, app: Flask, database: Database, account_id: uuid.UUID, job_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        token = api_tokens.make_token(session, account_id, "test")
    headers = {"Authorization": f"Bearer {token}"}
    job = showing_usage.test_client().get(f"/api/v1/jobs/{job_id}", headers=headers).json
    assert job["usage"] == {
        "calls": 3,
        "calls_not_reported": 1,
        "input_tokens": 1234,
        "output_tokens": 210,
        "cost": "0.001654",
        "wasted": {
            "calls": 2,
            "calls_not_reported": 1,
            "input_tokens": 500,
            "output_tokens": 100,
            "cost": "0.0007",
        },
    }
    assert showing_usage.test_client().get("/api/v1/jobs", headers=headers).json["jobs"] == [job]
    assert app.test_client().get(f"/api/v1/jobs/{job_id}", headers=headers).json["usage"] is None


def test_the_calls_are_the_owners(showing_usage: Flask, bob: Person, database: Database, job_id: uuid.UUID) -> None:
    with database.transaction() as session:
        assert job_views.spending_of(session, [job_id], bob.id) == {job_id: []}
    assert Person(showing_usage, bob.id).get(f"/jobs/{job_id}").status_code == 404
