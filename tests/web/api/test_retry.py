"""Tests that a program can try a failed job again, by the rules of the page's button."""

from __future__ import annotations

import pytest

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tests.web.conftest import Program, WebHarness


def retry(program: Program, job_id: object) -> tuple[int, dict[str, object]]:
    answer = program.ask("POST", f"/jobs/{job_id}/retry")
    return answer.status_code, answer.get_json()


def test_a_failed_job_is_queued_again_and_a_second_request_changes_nothing(program: Program, bench: WebHarness) -> None:
    job_id = bench.failed(Category.OVERLOADED)
    shown = program.ask("GET", f"/jobs/{job_id}").get_json()
    assert shown["retry_url"] == f"/api/v1/jobs/{job_id}/retry"
    status, job = retry(program, job_id)
    assert (status, job["state"], job["id"], job["retry_url"]) == (202, "queued", str(job_id), None)
    assert retry(program, job_id)[0] == 200
    assert retry(program, bench.job())[0] == 200


@pytest.mark.parametrize("category", [Category.INVALID_DOCUMENT, Category.QUOTA, Category.CONTENT_POLICY])
def test_a_cause_that_stays_is_named(program: Program, bench: WebHarness, category: Category) -> None:
    job_id = bench.failed(category)
    status, body = retry(program, job_id)
    assert (status, body["state"]) == (409, "failed")
    assert "does not pass by itself" in str(body["detail"])
    assert program.ask("GET", f"/jobs/{job_id}").get_json()["retry_url"] is None


def test_what_has_not_failed_cannot_be_tried_again(program: Program, bench: WebHarness, database: Database) -> None:
    assert retry(program, bench.succeeded())[0] == 409
    cancelled = bench.job()
    with database.transaction() as session:
        transitions.cancel(session, cancelled, bench.owner)
    assert retry(program, cancelled)[0] == 409


def test_somebody_elses_job_is_not_there(program: Program, stranger: Program, bench: WebHarness) -> None:
    job_id = bench.failed(Category.OVERLOADED)
    assert retry(stranger, job_id)[0] == 404
    assert program.ask("GET", f"/jobs/{job_id}").get_json()["state"] == "failed"


def test_it_has_an_end(program: Program, bench: WebHarness, database: Database) -> None:
    job_id = bench.failed(Category.OVERLOADED)
    with database.transaction() as session:
        session.connection().exec_driver_sql("UPDATE jobs SET attempts = 99, max_attempts = 99")
    status, body = retry(program, job_id)
    assert status == 409 and "too often" in str(body["detail"])
