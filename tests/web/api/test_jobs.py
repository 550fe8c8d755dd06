from __future__ import annotations

import io
import threading
import uuid
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select, update

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models import Document, Job
from tests.web.conftest import Person, Program, WebHarness, assert_problem, rows
from webapp.models import ApiToken


def test_a_submit_is_accepted_with_a_place_to_look(program: Program, database: Database) -> None:
    answer = program.submit("Text.", title="T", workflow="summary", options={"length": "short"})
    assert answer.status_code == 202 and answer.content_type == "application/json"
    body = answer.json
    assert answer.headers["Location"] == f"/api/v1/jobs/{body['id']}" == body["url"]
    assert (body["state"], body["attempt"], body["max_attempts"]) == ("queued", 1, 3)
    assert body["options"] == {"length": "short", "form": "prose", "language": "document"}
    assert body["error"] is body["result_url"] is body["next_attempt_at"] is body["progress"] is None
    assert program.ask("GET", f"/jobs/{body['id']}").json == body
    assert "Set-Cookie" not in answer.headers


def test_a_submit_and_a_look_at_its_job_cost_few_statements(program: Program, database_statements: list[str]) -> None:
    program.submit("The first one also notes the use of the token.")
    database_statements.clear()
    answer = program.submit("Text.")
    assert answer.status_code == 202
    words = [statement.split()[0] for statement in database_statements]
    assert len(words) - words.count("BEGIN") <= 13, "\n".join(database_statements)
    assert words.count("BEGIN") <= 3, "accept it, take its turn, and note that it was sent"
    database_statements.clear()
    program.ask("GET", f"/jobs/{answer.json['id']}")
    assert len(database_statements) == 3, "token, job, and the lane that a waiting job may wait for"


def test_the_same_wish_is_200_and_the_same_job(program: Program, ada: Person, database: Database) -> None:
    first = program.submit("Text.", "k").json["id"]
    for answer in (program.submit("Text.", "k"), program.submit("Text."), program.submit("Text.", "k2")):
        assert (answer.status_code, answer.json["id"]) == (200, first)
    assert ada.paste("Text.").location == f"/jobs/{first}?known=1", "pages and programs mean the same"
    assert len(rows(database, select(Job.id))) == 1


def test_the_same_key_with_other_content_is_409(program: Program, database: Database) -> None:
    program.submit("Text.", "k")
    assert_problem(program.submit("Other.", "k"), 409)
    assert_problem(program.submit("Text.", "k", options={"length": "long"}), 409)
    assert len(rows(database, select(Job.id))) == 1


def test_simultaneous_submits_with_one_key_are_one_job(app: Flask, program: Program, database: Database) -> None:
    barrier, answers = threading.Barrier(4), []

    def send() -> None:
        barrier.wait()
        answers.append(Program(app, program.token).submit("Text.", "k"))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 202]
    assert len({answer.json["id"] for answer in answers}) == 1


def test_a_file_is_taken_as_multipart(program: Program, database: Database) -> None:
    fields = {"file": (io.BytesIO(b"a,b\n1,2\n"), "t.csv"), "title": "Table", "options": '{"form": "bullets"}'}
    answer = program.ask("POST", "/jobs", data=fields)
    assert answer.status_code == 202
    assert rows(database, select(Document.kind, Document.filename)) == [("csv", "t.csv")]
    assert (answer.json["title"], answer.json["options"]["form"]) == ("Table", "bullets")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"[1]", 400),
        (b"null", 400),
        (b"[" * 100_000, 400),
        (b"\xff\xfe", 400),
        (b"{}", 422),
        (b'{"text": ""}', 422),
        (b'{"text": " \\u0000 "}', 422),
        (b'{"text": 5}', 422),
        (b'{"text": ["x"]}', 422),
        (b'{"text": "x", "title": {}}', 422),
        (b'{"text": "x", "workflow": "nothing"}', 422),
        (b'{"text": "x", "options": 5}', 422),
        (b'{"text": "x", "options": {"length": "huge"}}', 422),
        (b'{"text": "x", "options": {"colour": "red"}}', 422),
        (b'{"text": "x", "options": {"length": null}}', 422),
    ],
    ids=range(17),
)
def test_a_bad_body_is_a_problem(program: Program, database: Database, body: bytes, status: int) -> None:
    assert_problem(program.ask("POST", "/jobs", data=body, content_type="application/json"), status)
    assert not rows(database, select(Job.id))


def test_odd_characters_in_json_are_cleaned(program: Program, database: Database) -> None:
    raw = b'{"text": "half \\ud83d NUL \\u0000 end", "title": "t\\u0000\\ud83d"}'
    assert program.ask("POST", "/jobs", data=raw, content_type="application/json").status_code == 202
    [(content,)] = rows(database, select(Document.content))
    assert content.decode() == "half \ufffd NUL  end"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"file": (io.BytesIO, b"", "a.txt")}, 422),
        ({"file": (io.BytesIO, b"\x89PNG\r\n\x1a\n0000", "a.txt")}, 422),
        ({"file": (io.BytesIO, b"x", "a.txt"), "text": "x"}, 422),
        ({"file": (io.BytesIO, b"x", "a.txt"), "options": "{"}, 422),
        ({"title": "nothing else"}, 422),
    ],
    ids=range(5),
)
def test_a_bad_multipart_is_a_problem(program: Program, fields: dict[str, Any], status: int) -> None:
    made = {key: (value[0](value[1]), value[2]) if isinstance(value, tuple) else value for key, value in fields.items()}
    assert_problem(program.ask("POST", "/jobs", data=made, content_type="multipart/form-data"), status)


def test_too_large_is_413(app: Flask, program: Program, make_app) -> None:
    small = Program(make_app(max_upload_bytes=2048), program.token)
    file = {"file": (io.BytesIO(b"x" * 2049), "a.txt")}
    assert "2 kB" in assert_problem(small.ask("POST", "/jobs", data=file), 413)["detail"]
    assert_problem(small.ask("POST", "/jobs", data=b"x" * 2_000_000, content_type="application/json"), 413)
    assert_problem(program.submit("x" * 200_001), 422)


def test_another_media_type_is_415(program: Program) -> None:
    assert_problem(program.ask("POST", "/jobs", data=b"text", content_type="text/plain"), 415)
    assert_problem(program.ask("POST", "/jobs", data={"text": "x"}), 415)


@pytest.mark.parametrize("key", ["x" * 201, "caf\xe9", ""])
def test_an_unusable_key_is_400(program: Program, key: str) -> None:
    assert_problem(program.ask("POST", "/jobs", {"Idempotency-Key": key}, json={"text": "x"}), 400)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wb_wrong", "Basic YTpi", "Bearer caf\xe9", "Bearer " + "x" * 9000]
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/jobs"), ("POST", "/jobs"), ("GET", f"/jobs/{uuid.UUID(int=1)}")]
)
def test_a_broken_token_is_401(app: Flask, program: Program, header: str | None, method: str, path: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = app.test_client(use_cookies=False).open(f"/api/v1{path}", method=method, headers=headers)
    assert_problem(answer, 401)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_cookie_is_no_token(ada: Person) -> None:
    assert_problem(ada.client.get("/api/v1/jobs"), 401)


def test_guessing_tokens_is_stopped_and_work_is_not(app: Flask, program: Program) -> None:
    guess = Program(app, "wb_guess")
    for _ in range(60):
        assert program.ask("GET", "/jobs").status_code == 200
        assert_problem(guess.ask("GET", "/jobs"), 401)
    assert_problem(guess.ask("GET", "/jobs"), 429)


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/jobs", "/api/v1/jobs/x"])
def test_an_unknown_address_is_a_problem(program: Program, path: str) -> None:
    answer = program.client.get(path, headers={"Authorization": f"Bearer {program.token}"})
    assert answer.status_code == 404
    if path != "/api":
        assert_problem(answer, 404)


def test_a_wrong_method_is_405_and_says_which_are_right(program: Program) -> None:
    answer = program.ask("DELETE", "/jobs")
    assert_problem(answer, 405)
    assert "POST" in answer.headers["Allow"]


def test_a_foreign_job_is_like_a_missing_or_malformed_one(
    program: Program, stranger: Program, bench: WebHarness
) -> None:
    job_id = bench.succeeded("Secret.")
    for method, tail in (("GET", ""), ("GET", "/result"), ("POST", "/cancel"), ("DELETE", "")):
        bodies = {stranger.ask(method, f"/jobs/{found}{tail}").data for found in (job_id, uuid.uuid4(), "not-an-id")}
        assert len(bodies) == 1
        assert_problem(stranger.ask(method, f"/jobs/{job_id}{tail}"), 404)
    assert stranger.ask("GET", "/jobs").json == {"jobs": [], "next": None}


def test_a_result_is_given_once_it_is_there(program: Program, bench: WebHarness) -> None:
    waiting = bench.job()
    assert assert_problem(program.ask("GET", f"/jobs/{waiting}/result"), 409)["state"] == "queued"
    failed = bench.failed(Category.QUOTA, "insufficient_quota")
    assert assert_problem(program.ask("GET", f"/jobs/{failed}/result"), 409)["state"] == "failed"
    done = bench.succeeded("The pier is **closed**.")
    job = program.ask("GET", f"/jobs/{done}").json
    body = program.client.get(job["result_url"], headers={"Authorization": f"Bearer {program.token}"}).json
    assert body.pop("created_at")
    assert body == {
        "id": str(done),
        "text": "The pier is **closed**.",
        "format": "markdown",
        "model": "m",
        "label": "Extract made on this server, without an AI service",
        "complete": True,
    }


def test_a_failure_has_a_category_and_words(program: Program, bench: WebHarness) -> None:
    job = program.ask("GET", f"/jobs/{bench.failed(Category.INVALID_DOCUMENT, 'locked')}").json
    assert job["error"]["category"] == "invalid_document" and job["error"]["code"] == "locked"
    assert "password" in job["error"]["message"]
    waiting = program.ask("GET", f"/jobs/{bench.waiting(Category.RATE_LIMITED)}").json
    assert waiting["error"]["category"] == "rate_limited" and waiting["next_attempt_at"]
    assert program.ask("GET", f"/jobs/{bench.succeeded()}").json["error"] is None


def test_a_wait_behind_a_closed_lane_is_told(program: Program, bench: WebHarness, database: Database) -> None:
    stopped, free = bench.job(), bench.job()
    assert program.ask("GET", f"/jobs/{stopped}").json["waiting_for"] is None
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code="insufficient_quota")
    with database.transaction() as session:
        transitions.claim(session, stopped, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    job = program.ask("GET", f"/jobs/{stopped}").json
    assert job["waiting_for"] == {"category": "quota", "until": job["deadline_at"]}
    listed = {job["id"]: job for job in program.ask("GET", "/jobs").json["jobs"]}
    assert listed[str(stopped)] == job and listed[str(free)]["waiting_for"] is None
    cancelled = program.ask("POST", f"/jobs/{stopped}/cancel").json
    assert cancelled["waiting_for"] is None


def test_a_failure_of_the_site_does_not_blame_the_document(program: Program, bench: WebHarness) -> None:
    error = program.ask("GET", f"/jobs/{bench.failed(Category.QUOTA)}").json["error"]
    assert error["message"].startswith("The service could not do this. Nothing is wrong with your file.")


def test_cancelling_by_program(program: Program, bench: WebHarness) -> None:
    queued, running, done = bench.job(), bench.job(), bench.succeeded()
    bench.claim(running)
    for _ in range(2):
        answer = program.ask("POST", f"/jobs/{queued}/cancel")
        assert (answer.status_code, answer.json["state"]) == (200, "cancelled")
        answer = program.ask("POST", f"/jobs/{running}/cancel")
        assert (answer.status_code, answer.json["state"]) == (202, "cancel_requested")
    assert assert_problem(program.ask("POST", f"/jobs/{done}/cancel"), 409)["state"] == "succeeded"


def test_the_list_goes_on_by_cursor(program: Program, bench: WebHarness) -> None:
    made = {str(bench.job()) for _ in range(7)}
    seen: list[str] = []
    address: str | None = "/api/v1/jobs?limit=3"
    while address:
        body = program.client.get(address, headers={"Authorization": f"Bearer {program.token}"}).json
        seen += [job["id"] for job in body["jobs"]]
        address = body["next"]
    assert len(seen) == 7 and set(seen) == made


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "before=x", "before=%00", "before="])
def test_a_bad_list_query_is_422(program: Program, query: str) -> None:
    assert_problem(program.ask("GET", f"/jobs?{query}"), 422)


def test_the_use_of_a_token_is_noted_at_most_once_a_minute(program: Program, database: Database) -> None:
    def used() -> Any:
        return rows(database, select(ApiToken.last_used_at))[0][0]

    program.ask("GET", "/jobs")
    first = used()
    program.ask("GET", "/jobs")
    assert first is not None and used() == first
    with database.transaction() as session:
        session.execute(update(ApiToken).values(last_used_at=func.now() - func.make_interval(0, 0, 0, 0, 0, 2)))
    program.ask("GET", "/jobs")
    assert used() > first


def test_a_fault_of_ours_is_a_problem_without_its_message(
    app: Flask, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webapp.api import jobs

    def fail(*args: object, **more: object) -> None:
        raise RuntimeError("The document said: secret")

    monkeypatch.setattr(jobs, "submit", fail)
    app.config["TESTING"] = False
    answer = program.submit()
    assert "secret" not in answer.text
    assert_problem(answer, 500)
