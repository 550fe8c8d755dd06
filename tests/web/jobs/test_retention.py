"""The pages and API responses of a job whose content was deleted at the end of its retention."""

from __future__ import annotations

import uuid

import pytest
from flask import Flask
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import retention, transitions
from tests.support.browser.html import words
from tests.web.conftest import Person, WebHarness, job_id_in
from webapp.auth import api_tokens


def close(database: Database, job_id: uuid.UUID, days: int = 30) -> None:
    """Move the end of the job into the past, and delete its content as the sweep does."""
    with database.transaction() as session:
        session.execute(
            text("UPDATE jobs SET finished_at = finished_at - make_interval(days => :d) WHERE id = :id"),
            {"d": days, "id": job_id},
        )
    with database.transaction() as session:
        assert retention.delete_content(session, job_id, days=days)


def test_the_page_stays_true_and_says_since_when_it_is_gone(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.succeeded("The pier is closed.")
    close(database, job_id)
    page = ada.get(f"/jobs/{job_id}")
    shown = words(page.text)
    assert page.status_code == 200 and 'data-state="succeeded"' in page.text
    assert "The result and the document were deleted on" in shown and "after 30 days. This record stays." in shown
    assert "submit the document again" in shown and "Read: 12 pages" in shown
    assert "pier is closed" not in page.text and "/original" not in page.text and "result.md" not in page.text
    assert 'value="fresh"' not in page.text
    assert "Saved" in ada.get("/").text
    asked = words(ada.get(f"/jobs/{job_id}/delete").text)
    assert "its content was deleted earlier" in asked and "1 job and no saved result" in asked
    for path in ("result.md", "result.txt", "result.docx", "original"):
        gone = ada.get(f"/jobs/{job_id}/{path}")
        assert gone.status_code == 410 and "This has been deleted" in gone.text
    assert ada.post(f"/jobs/{job_id}/again", {"mode": "fresh", "fresh_run_key": "k"}).status_code == 409


def test_a_result_can_be_gone_while_the_document_is_kept_for_newer_work(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.succeeded()
    fresh = job_id_in(ada.post(f"/jobs/{job_id}/again", {"mode": "fresh", "fresh_run_key": "k"}))
    close(database, job_id)
    assert "The result was deleted on" in words(ada.get(f"/jobs/{job_id}").text)
    assert ada.get(f"/jobs/{fresh}/original").status_code == 200


@pytest.mark.parametrize("category", [Category.OVERLOADED, Category.QUOTA])
def test_what_failed_offers_no_second_try_without_its_document(
    ada: Person, bench: WebHarness, database: Database, category: Category
) -> None:
    job_id = bench.failed(category)
    close(database, job_id)
    page = ada.get(f"/jobs/{job_id}")
    assert "The document was deleted on" in words(page.text) and "Try again" not in page.text
    assert "is safe" not in page.text and "operator of this site" not in page.text
    assert ada.post(f"/jobs/{job_id}/again", {"mode": "again"}).status_code == 409


def test_the_same_document_handed_in_again_is_a_new_job(ada: Person, bench: WebHarness, database: Database) -> None:
    first = job_id_in(ada.paste("The same text."))
    claim = bench.claim(first)
    with database.transaction() as session:
        transitions.succeed(session, claim, text="A.", facts={})
    assert job_id_in(ada.paste("The same text.")) == first
    close(database, first)
    second = job_id_in(ada.paste("The same text."))
    assert second != first and job_id_in(ada.paste("The same text.")) == second
    assert ada.get(f"/jobs/{second}/original").data == b"The same text."
    assert "The result was deleted on" in words(ada.get(f"/jobs/{first}").text)


def test_programs_are_told_410(app: Flask, bench: WebHarness, database: Database) -> None:
    with database.transaction() as session:
        token = api_tokens.make_token(session, bench.owner, "script")
    job_id, failed = bench.succeeded(), bench.failed(Category.OVERLOADED)
    client, headers = app.test_client(), {"Authorization": f"Bearer {token}"}
    assert client.get(f"/api/v1/jobs/{job_id}", headers=headers).json["content_deleted_at"] is None
    close(database, job_id)
    close(database, failed)
    job = client.get(f"/api/v1/jobs/{job_id}", headers=headers).json
    assert job["state"] == "succeeded" and job["content_deleted_at"] and job["result_url"] is None
    gone = client.get(f"/api/v1/jobs/{job_id}/result", headers=headers)
    assert gone.status_code == 410 and gone.json["deleted_at"] == job["content_deleted_at"]
    assert "submit the document again" in gone.json["detail"]
    assert client.get(f"/api/v1/jobs/{failed}/result", headers=headers).status_code == 409
    message = client.get(f"/api/v1/jobs/{failed}", headers=headers).json["error"]["message"]
    assert "is safe" not in message and "submit the document again" in message
