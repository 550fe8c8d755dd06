"""Tests the API's rate limits, pagination and long polling."""

from __future__ import annotations

import re
import runpy
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask
from pydantic import SecretStr

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.settings import Settings
from tests.support import factories
from tests.web.conftest import Program, WebHarness, assert_problem
from webapp.auth import api_tokens
from webapp.extensions import db
from webapp.http import long_polling
from webapp.services import Services


def limits_in(headers) -> tuple[int, int, int]:
    policy = re.fullmatch(r'"requests";q=(\d+);w=60', headers["RateLimit-Policy"])
    left = re.fullmatch(r'"requests";r=(\d+);t=(\d+)', headers["RateLimit"])
    assert policy and left
    return int(policy[1]), int(left[1]), int(left[2])


def test_every_answer_says_how_much_may_be_asked(program: Program) -> None:
    limit, left, seconds = limits_in(program.ask("GET", "/jobs").headers)
    assert (limit, left) == (600, 599) and 1 <= seconds <= 60
    assert limits_in(program.ask("GET", f"/jobs/{uuid.uuid4()}").headers)[1] == 598
    assert limits_in(program.submit("Text.").headers)[1] == 597


def test_who_asks_too_often_is_told_when_to_come_back(
    make_app, program: Program, stranger: Program, database: Database, account_id: uuid.UUID
) -> None:
    app = make_app(api_requests_per_minute=3)
    with database.transaction() as session:
        second = api_tokens.make_token(session, account_id, "another one of the same account")
    for token in (program.token, second, program.token):
        assert Program(app, token).ask("GET", "/jobs").status_code == 200
    refused = Program(app, second).ask("POST", "/jobs", json={"text": "Text."})
    assert_problem(refused, 429)
    _, left, seconds = limits_in(refused.headers)
    assert left == 0 and refused.headers["Retry-After"] == str(seconds)
    assert Program(app, stranger.token).ask("GET", "/jobs").json == {"jobs": [], "next": None}


def test_a_refused_guess_is_told_when_to_come_back(app: Flask) -> None:
    guess = Program(app, "wb_guess")
    for _ in range(60):
        assert guess.ask("GET", "/jobs").status_code == 401
    refused = guess.ask("GET", "/jobs")
    assert refused.status_code == 429 and 1 <= int(refused.headers["Retry-After"]) <= 61
    assert "RateLimit" not in refused.headers


def test_without_redis_work_goes_on(make_app, program: Program) -> None:
    """Check that the limiter falls back to the process's own memory, where the count starts at zero."""
    alone = Program(make_app(redis_url=SecretStr("redis://127.0.0.1:1/0")), program.token)
    assert alone.ask("GET", "/jobs").status_code == 200


def test_a_list_names_the_next_page_in_a_header_too(program: Program, bench: WebHarness) -> None:
    made = [str(bench.job()) for _ in range(3)]
    first = program.ask("GET", "/jobs?limit=2&state=queued")
    assert first.headers["Link"] == f'<{first.json["next"]}>; rel="next"'
    second = program.ask("GET", first.json["next"].removeprefix("/api/v1"))
    assert "state=queued" in first.json["next"] and "Link" not in second.headers
    assert [job["id"] for job in first.json["jobs"] + second.json["jobs"]] == made[::-1]


def test_a_list_can_be_of_one_state(program: Program, bench: WebHarness) -> None:
    queued, done = bench.job(), bench.succeeded()
    for state, expected in (("queued", [queued]), ("succeeded", [done]), ("failed", [])):
        listed = program.ask("GET", f"/jobs?state={state}").json["jobs"]
        assert [job["id"] for job in listed] == [str(one) for one in expected]
    assert_problem(program.ask("GET", "/jobs?state=done"), 422)


@pytest.mark.parametrize(
    "query", ["wait=26", "wait=-1", "wait=x", "wait=", "wait=1e1", "wait=٣", "revision=-1", "revision=" + "9" * 40]
)
def test_a_bad_wait_is_422(program: Program, bench: WebHarness, query: str) -> None:
    assert_problem(program.ask("GET", f"/jobs/{bench.job()}?{query}"), 422)


def test_a_wait_ends_when_the_time_is_over(program: Program, bench: WebHarness) -> None:
    job_id, begun = bench.job(), time.monotonic()
    answer = program.ask("GET", f"/jobs/{job_id}?wait=1")
    assert answer.headers["Waybill-Wait"] == "time-over" and answer.json["state"] == "queued"
    assert time.monotonic() - begun >= 1


def test_nobody_waits_for_what_is_known_already(program: Program, bench: WebHarness) -> None:
    waiting_job, done = bench.job(), bench.succeeded()
    answer = program.ask("GET", f"/jobs/{waiting_job}?wait=25&revision=0")
    assert answer.headers["Waybill-Wait"] == "changed"
    assert program.ask("GET", f"/jobs/{done}?wait=25").headers["Waybill-Wait"] == "finished"
    assert "Waybill-Wait" not in program.ask("GET", f"/jobs/{done}").headers
    assert "Waybill-Wait" not in program.ask("GET", f"/jobs/{done}?wait=0").headers


@contextmanager
def waits(program: Program, path: str) -> Iterator[list]:
    """Start a client that waits in another thread; return its response, once there is one."""
    answers: list = []
    thread = threading.Thread(target=lambda: answers.append(program.ask("GET", path)))
    thread.start()
    yield answers
    thread.join(30)
    assert answers


def taken(app: Flask) -> int:
    """Return how many requests wait right now."""
    parts: Services = app.extensions["waybill"]
    return 4 - parts.long_poll_slots._slots._value


def test_a_wait_ends_with_the_change_and_holds_no_connection(
    app: Flask, program: Program, bench: WebHarness, database: Database
) -> None:
    job_id = bench.job()
    revision = program.ask("GET", f"/jobs/{job_id}").json["revision"]
    with waits(program, f"/jobs/{job_id}?wait=25&revision={revision}") as answers:
        factories.wait_until(lambda: taken(app) == 1)
        with app.app_context():
            pool = db.engine.pool
        factories.wait_until(lambda: pool.checkedout() == 0)  # type: ignore[attr-defined]
        assert not answers
        with database.transaction() as session:
            transitions.cancel(session, job_id, bench.owner)
    [answer] = answers
    assert (answer.headers["Waybill-Wait"], answer.json["state"]) == ("changed", "cancelled")
    assert answer.json["revision"] > revision and taken(app) == 0


def test_a_job_that_is_deleted_meanwhile_is_404(app: Flask, program: Program, bench: WebHarness) -> None:
    job_id = bench.job()
    with waits(program, f"/jobs/{job_id}?wait=25") as answers:
        factories.wait_until(lambda: taken(app) == 1)
        assert program.ask("DELETE", f"/jobs/{job_id}").status_code == 204
    assert_problem(answers[0], 404)


def test_half_of_the_threads_may_wait_and_the_rest_is_answered_at_once(
    make_app, program: Program, bench: WebHarness
) -> None:
    app, job_id = make_app(web_threads=2), bench.job()
    asking = Program(app, program.token)
    with waits(asking, f"/jobs/{job_id}?wait=25") as answers:
        parts: Services = app.extensions["waybill"]
        factories.wait_until(lambda: parts.long_poll_slots._slots._value == 0)
        answer = asking.ask("GET", f"/jobs/{job_id}?wait=25")
        assert (answer.status_code, answer.headers["Waybill-Wait"]) == (200, "full")
        assert not answers, "the first one waits on"
        parts.long_poll_slots.stopping = lambda: True
    assert answers[0].headers["Waybill-Wait"] == "stopping"
    none = Program(make_app(web_threads=1), program.token)
    assert none.ask("GET", f"/jobs/{job_id}?wait=25").headers["Waybill-Wait"] == "full"


def test_the_server_and_the_app_agree_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEB_THREADS", raising=False)
    assert (
        runpy.run_path(str(factories.ROOT / "gunicorn.conf.py"))["threads"]
        == Settings.model_fields["web_threads"].default
    )


def test_a_place_is_given_back_when_the_question_fails() -> None:
    slots = long_polling.LongPollSlots(1)

    def fail() -> bool:
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError):
            slots.wait(fail, 5)
    assert slots.wait(lambda: True, 5) is long_polling.Ended.CHANGED


def test_nobody_waits_for_a_strangers_job(stranger: Program, bench: WebHarness) -> None:
    assert_problem(stranger.ask("GET", f"/jobs/{bench.job()}?wait=25"), 404)
