"""Tests that each request logs one line, with ids, and never with user input from a URL or a form."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from flask import Flask

from tasks.ledger.errors import Category
from tests.web.conftest import Browser, Person, WebHarness, job_id_in

WORD = "markedword"


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """Return what is logged, with what is bound to the request."""
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as found:
        yield found


def ended(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return [line for line in lines if line["event"] == "request.ended"][-1]


def test_a_request_is_one_line_with_its_ids(ada: Person, bench: WebHarness, lines: list[dict[str, Any]]) -> None:
    job_id = bench.job()
    given = str(uuid.uuid4())
    ada.get(f"/jobs/{job_id}/status?rev=1&q={WORD}", headers={"X-Request-ID": given})
    line = ended(lines)
    assert line["milliseconds"] >= 0
    del line["milliseconds"], line["log_level"]
    assert line == {
        "event": "request.ended",
        "request_id": uuid.UUID(given).hex,
        "method": "GET",
        "route": "/jobs/<uuid:job_id>/status",
        "status": 200,
        "account": ada.id.hex,
        "job": job_id.hex,
    }


def test_submit_cancel_and_again_name_their_job(ada: Person, bench: WebHarness, lines: list[dict[str, Any]]) -> None:
    job_id = job_id_in(ada.paste(WORD, title=WORD))
    submitted = [line for line in lines if line["event"] == "job.submitted"]
    assert [(line["job"], line["created"]) for line in submitted] == [(job_id.hex, True)]
    assert submitted[0]["request_id"] == ended(lines)["request_id"]
    assert ada.post(f"/jobs/{job_id}/cancel").status_code == 303
    assert (ended(lines)["route"], ended(lines)["job"]) == ("/jobs/<uuid:job_id>/cancel", job_id.hex)
    failed = bench.failed(Category.OVERLOADED)
    assert ada.post(f"/jobs/{failed}/again").status_code == 303
    assert (ended(lines)["route"], ended(lines)["job"]) == ("/jobs/<uuid:job_id>/again", failed.hex)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", f"/{WORD}", {}),
        ("GET", f"/jobs/{WORD}?q={WORD}", {"X-Request-ID": WORD, "User-Agent": WORD, "Referer": f"/{WORD}"}),
        ("GET", f"/login?next=/{WORD}", {"Cookie": f"session={WORD}"}),
        ("POST", f"/login?{WORD}", {}),
        (WORD.upper(), "/", {}),
        ("GET", f"/ops/{WORD}", {}),
        ("GET", f"/api/v1/jobs?before={WORD}", {"Authorization": f"Bearer {WORD}"}),
        ("GET", f"/static/{WORD}", {}),
    ],
)
def test_no_word_of_the_one_who_asks_is_logged(
    browser: Browser, lines: list[dict[str, Any]], method: str, path: str, headers: dict[str, str]
) -> None:
    status = browser.client.open(path, method=method, headers=headers, data={"email": WORD}).status_code
    assert lines or "static" in path
    assert WORD not in repr(lines).lower()
    assert not lines or (ended(lines)["status"] == status and re.fullmatch("[0-9a-f]{32}", ended(lines)["request_id"]))


def test_a_fault_is_noted_with_the_request(
    make_app: Callable[..., Flask], account_id: uuid.UUID, lines: list[dict[str, Any]]
) -> None:
    app = make_app()

    @app.get("/breaks/<word>")
    def breaks(word: str) -> str:
        raise ValueError(word)

    app.config["TESTING"] = False
    assert Person(app, account_id).get(f"/breaks/{WORD}").status_code == 500
    noted = next(line for line in lines if line["event"] == "request.failed")
    assert noted["request_id"] == ended(lines)["request_id"] and noted["error"] == "ValueError"
    assert ended(lines)["status"] == 500 and WORD not in repr(lines)


def test_health_is_not_worth_a_line(browser: Browser, lines: list[dict[str, Any]]) -> None:
    browser.get("/healthz")
    assert lines == []
