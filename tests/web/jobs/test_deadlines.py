"""Deadlines hold even when no worker is running, so that no page says for ever that a document waits."""

from __future__ import annotations

import uuid

import pytest
from flask import Flask
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import deadlines, transitions
from tasks.ledger.reports import job_views
from tests.support import factories
from tests.web.conftest import Person, WebHarness, poll_address
from webapp.auth import api_tokens

HX = {"HX-Request": "true"}


def pass_the_deadline(database: Database, job_id: uuid.UUID) -> None:
    with database.transaction() as session:
        session.execute(text(f"UPDATE jobs SET deadline_at = now() - interval '1 second' WHERE id = '{job_id}'"))


def cause(database: Database, job_id: uuid.UUID) -> tuple[str, str | None, str | None]:
    with database.transaction() as session:
        job = job_views.any_job(session, job_id)
        assert job is not None and job_views.orphans(session, grace_seconds=0) == 0
        return job.state, job.error_category, job.error_code


ENDED = ("failed", "deadline", "not_done_in_time")


@pytest.mark.parametrize("look", ["page", "poll", "list", "api", "api list", "ops"])
def test_whoever_looks_at_a_late_job_sees_its_end(
    app: Flask, ada: Person, olga: Person, bench: WebHarness, database: Database, look: str
) -> None:
    job_id = bench.job()
    poll = poll_address(ada.get(f"/jobs/{job_id}").text)
    assert ada.get(poll, headers=HX).status_code == 204
    with database.transaction() as session:
        program = {"Authorization": f"Bearer {api_tokens.make_token(session, bench.owner, 'script')}"}
    pass_the_deadline(database, job_id)
    assert cause(database, job_id)[0] == "queued", "without a worker, time alone moves nothing"
    message = "Time ran out before the result was ready."
    if look == "page":
        assert message in ada.get(f"/jobs/{job_id}").text
    elif look == "poll":
        assert message in ada.get(poll, headers=HX).text
    elif look == "list":
        assert ">Failed</span>" in ada.get("/").text
    elif look == "api":
        answer = app.test_client().get(f"/api/v1/jobs/{job_id}", headers=program).json
        assert answer["state"] == "failed" and answer["error"]["category"] == "deadline"
    elif look == "api list":
        assert app.test_client().get("/api/v1/jobs", headers=program).json["jobs"][0]["state"] == "failed"
    else:
        olga.get("/ops")
    assert cause(database, job_id) == ENDED


def test_a_holder_that_went_with_the_workers_does_not_keep_it(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.job()
    bench.claim(job_id)
    pass_the_deadline(database, job_id)
    ada.get(f"/jobs/{job_id}")
    assert cause(database, job_id)[0] == "running", "its holder lives"
    with database.transaction() as session:
        factories.let_the_lease_run_out(session, job_id)
    assert "Time ran out" in ada.get(f"/jobs/{job_id}").text
    assert cause(database, job_id) == ENDED


def test_behind_a_stopped_lane_the_lane_is_the_cause(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code=None)
        transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    pass_the_deadline(database, job_id)
    ada.get(f"/jobs/{job_id}")
    assert cause(database, job_id) == ("failed", "quota", "lane_closed")


def test_a_job_that_was_replayed_meanwhile_is_left_alone(bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    with database.transaction() as session:
        assert deadlines.end_at_deadline(session, job_id) is None
    assert cause(database, job_id)[0] == "queued"
