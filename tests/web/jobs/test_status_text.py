"""Tests what the top of a status page says: each state, and each reason to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from markupsafe import Markup

from tasks.database import Database
from tasks.ledger.reports.job_views import LaneWait
from tasks.ledger.states import READ_STEP, SAVE_STEP, State
from tasks.settings import Settings
from tests.web.conftest import WebHarness
from webapp.jobs.messages import Failure
from webapp.jobs.status import StatusPage, build_status_page
from webapp.jobs.status_text import status_text

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
FAILURE = Failure("The <b>service</b> was busy.", "Wait.")
SAFE, UNCOUNTED = "Your document is safe.", "Waiting doesn’t count as an attempt."
STOPS = "If it isn’t done by 12:10 UTC, we stop and say so here."
COOLING = LaneWait("rate_limited", None, until=NOW + timedelta(seconds=30), stopped=False)
STOPPED = LaneWait("quota", None, until=NOW + timedelta(minutes=10), stopped=True)
DELETED = {"content_deleted_at": NOW, "finished_at": NOW - timedelta(days=30)}


@pytest.fixture
def page(app: Flask, bench: WebHarness, database: Database, settings: Settings) -> StatusPage:
    """Return the page of a job at a fixed time, whose fields the tests replace."""
    job_id = bench.job()
    with app.test_request_context(), database.transaction() as session:
        page = build_status_page(session, job_id, bench.owner, settings)
    assert page is not None
    job = replace(page.job, now=NOW, created_at=NOW, deadline_at=NOW + timedelta(minutes=10), attempt=2, max_attempts=3)
    return replace(page, job=job, failure=FAILURE, jobs_ahead=None, no_worker=False, overdue_seconds=None)


def plain(text: str) -> str:
    """Return the text as a page shows it."""
    if not isinstance(text, Markup):
        return text
    return re.sub(r"<[^>]+>", "", text).replace("&lt;", "<").replace("&gt;", ">")


def said(app: Flask, page: StatusPage, of_job: Mapping[str, Any], of_page: Mapping[str, Any]) -> list[str]:
    with app.test_request_context():
        text = status_text(replace(page, job=replace(page.job, **of_job), **of_page))
        return [plain(part) for part in (text.headline, *text.lines)]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "new": ({}, {}, ["Accepted. Waiting for a free worker."]),
    "others first": ({}, {"jobs_ahead": 3}, ["Accepted. Waiting for a free worker. 3 jobs before yours."]),
    "begun": ({"started_at": NOW}, {}, ["Waiting for a free worker to continue."]),
    "at the provider": ({"at_provider": 1}, {}, ["The AI service is working on it. We ask again in a moment."]),
    "late": ({}, {"overdue_seconds": 100.0}, ["Waiting longer than usual: 1 min 40 s so far.", f"{SAFE} {STOPS}"]),
    "no worker": (
        {},
        {"no_worker": True, "overdue_seconds": 100.0},
        [
            "Accepted, but no worker has responded for a while. The work starts when one is back.",
            f"{SAFE} {STOPS}",
        ],
    ),
    "no queue": (
        {},
        {"queue_away": True, "overdue_seconds": 100.0},
        [
            "Accepted. The queue can’t be reached right now. Your document is safe, and the work starts automatically "
            "when the queue is back.",
            STOPS,
        ],
    ),
    "behind a cooling lane": (
        {},
        {"lane": COOLING},
        [
            "The <b>service</b> was busy. Your document waits and continues after 12:00:30 UTC.",
            f"{UNCOUNTED} {STOPS}",
        ],
    ),
    "behind a lane until tomorrow": (
        {"deadline_at": NOW + timedelta(days=2)},
        {"lane": replace(COOLING, until=NOW + timedelta(days=1))},
        [
            "The <b>service</b> was busy. Your document waits and continues after 12:00:00 UTC, 3 Mar 2026.",
            f"{UNCOUNTED} If it isn’t done by 12:00 UTC, 4 Mar 2026, we stop and say so here.",
        ],
    ),
    "behind a stopped lane": (
        {},
        {"lane": STOPPED},
        [
            "The <b>service</b> was busy.",
            "Wait. Your document waits until the operator has fixed this. If it isn’t fixed by 12:10 UTC, the job "
            f"fails and we say so here. {UNCOUNTED}",
        ],
    ),
    "paused": (
        {},
        {"paused": True},
        [
            "The operator has paused the work. Your document is safe and continues when the work resumes.",
            f"{UNCOUNTED} {STOPS}",
        ],
    ),
    "paused before a retry": (
        {"state": State.RETRY_WAIT},
        {"paused": True},
        [
            "The operator has paused the work. Your document is safe and continues when the work resumes.",
            f"The <b>service</b> was busy. The next try is attempt 2 of 3. {UNCOUNTED} {STOPS}",
        ],
    ),
    "reading": (
        {"state": State.RUNNING, "step": READ_STEP, "claimed_at": NOW},
        {},
        ["Reading your document, since 12:00 UTC, attempt 2 of 3."],
    ),
    "working": ({"state": State.RUNNING, "step": "list"}, {}, ["Summarizing your document, attempt 2 of 3."]),
    "saving": ({"state": State.RUNNING, "step": SAVE_STEP}, {}, ["Saving the result, attempt 2 of 3."]),
    "retry in a minute": (
        {"state": State.RETRY_WAIT, "next_attempt_at": NOW + timedelta(seconds=40)},
        {},
        ["The <b>service</b> was busy. Next try at 12:00:40 UTC (in 40 s), attempt 2 of 3."],
    ),
    "retry now": (
        {"state": State.RETRY_WAIT, "next_attempt_at": NOW},
        {},
        ["The <b>service</b> was busy. Next try at 12:00:00 UTC, attempt 2 of 3."],
    ),
    "retry overdue": (
        {"state": State.RETRY_WAIT},
        {"overdue_seconds": 9.0},
        ["The <b>service</b> was busy. The next try is due and waits for a free worker."],
    ),
    "retry without a worker": (
        {"state": State.RETRY_WAIT},
        {"overdue_seconds": 9.0, "no_worker": True},
        [
            "The <b>service</b> was busy. The next try is due, but no worker has responded for a while. It starts when "
            "one is back."
        ],
    ),
    "retry behind a stopped lane": (
        {"state": State.RETRY_WAIT},
        {"lane": STOPPED},
        [
            "The <b>service</b> was busy.",
            "Wait. The next try waits until the operator has fixed this. If it isn’t fixed by 12:10 UTC, the job "
            f"fails and we say so here. {UNCOUNTED}",
        ],
    ),
    "saved": ({"state": State.SUCCEEDED, "finished_at": NOW}, {}, ["Summary saved at 12:00 UTC, 2 Mar 2026."]),
    "saved and deleted": (
        {"state": State.SUCCEEDED, "original_kept": False, **DELETED},
        {},
        [
            "Summary saved at 12:00 UTC, 31 Jan 2026.",
            "The result and the document were deleted on 2 Mar 2026, after 30 days. This record stays. To get a result "
            "again, submit the document again.",
        ],
    ),
    "failed": ({"state": State.FAILED}, {}, ["The <b>service</b> was busy.", "Wait."]),
    "failed and deleted": (
        {"state": State.FAILED, **DELETED},
        {},
        [
            "The <b>service</b> was busy.",
            "The document was deleted on 2 Mar 2026, after 30 days. This record stays. To get a result again, "
            "submit the document again.",
        ],
    ),
    "cancelling": (
        {"state": State.CANCEL_REQUESTED},
        {},
        ["We asked the worker to stop. Work that is already at the AI service may still be billed."],
    ),
    "cancelled": (
        {"state": State.CANCELLED, "unknown_calls": 2},
        {},
        [
            "Cancelled. Nothing more will happen.",
            "2 calls to the AI service ended without an answer. The service may have billed them.",
        ],
    ),
}


@pytest.mark.parametrize(("of_job", "of_page", "expected"), CASES.values(), ids=CASES)
def test_what_the_page_says(
    app: Flask, page: StatusPage, of_job: dict[str, Any], of_page: dict[str, Any], expected: list[str]
) -> None:
    assert said(app, page, of_job, of_page) == expected


def test_every_state_is_among_the_cases() -> None:
    assert {of_job.get("state", State.QUEUED) for of_job, _, _ in CASES.values()} == set(State)


def test_what_stands_in_a_sentence_is_escaped(app: Flask, page: StatusPage) -> None:
    retry = replace(page.job, state=State.RETRY_WAIT, next_attempt_at=NOW)
    with app.test_request_context():
        assert "The &lt;b&gt;service&lt;/b&gt;" in str(status_text(replace(page, job=retry)).headline)
