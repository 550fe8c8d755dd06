"""Tests that a user who reaches a limit learns which one, and when it ends, and loses no input."""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import func, select, text
from werkzeug.datastructures import FileStorage

from tasks.database import Database
from tasks.ledger.accounts import limits
from tasks.ledger.delivery import outbox
from tasks.ledger.errors import Category
from tasks.ledger.models import Job
from tasks.ledger.terms import Limits
from tasks.settings import Settings
from tests.support import factories
from tests.web.conftest import Person, Program, WebHarness, assert_problem, job_id_in, proof_in, rows
from webapp import limits as words
from webapp.jobs.submission import MAX_ROUNDS
from webapp.local.ports import free_port

TIME = r'<time datetime="([^"]+)" data-local="clock">\d\d:\d\d UTC</time>'


@pytest.fixture
def limited(make_app: Callable[..., Flask]) -> Flask:
    """Create a site that allows two documents a day."""
    return make_app(jobs_per_day=2)


@pytest.fixture
def person(limited: Flask, ada: Person) -> Person:
    return Person(limited, ada.id)


def jobs(database: Database) -> int:
    return int(rows(database, select(func.count()).select_from(Job))[0][0])


def test_a_small_site_is_limited_unless_it_says_otherwise(addresses: dict[str, str]) -> None:
    plain = Settings(database_url=SecretStr("x"), redis_url=SecretStr("x"), waybill_demo=True, ai_provider="local")
    assert plain.limits == plain.terms.limits == Limits(100, 20, 0)


def test_the_first_page_says_what_is_left_and_why_nothing_is(person: Person) -> None:
    assert "2 of 2 left today." in person.get("/").text
    person.paste("one")
    assert "1 of 2 left today." in person.get("/").text
    person.paste("two")
    page = person.get("/").text
    assert "0 of 2 left today." in page
    assert "Documents submitted in the last 24 hours: 2 of 2. You can submit the next one at" in page
    assert 'id="limit" role="alert"' not in page, "nobody has done anything yet"
    account = person.get("/account").text
    assert (
        "<dt>Documents submitted in the last 24 hours</dt><dd>2 of 2</dd>" in account and "Tokens used" not in account
    )


def test_without_limits_nothing_is_said_of_them(ada: Person) -> None:
    assert "left today" not in ada.get("/").text and "Limits</h2>" not in ada.get("/account").text


def test_who_reaches_the_limit_is_told_until_when_and_keeps_what_was_typed(person: Person, database: Database) -> None:
    person.paste("one")
    person.paste("two")
    answer = person.paste("The third text.", title="My <b>title</b>")
    assert answer.status_code == 429 and jobs(database) == 2
    assert "The third text.</textarea>" in answer.text and "My &lt;b&gt;title" in answer.text
    [said] = re.findall(r'<p class="notice" id="limit" role="alert">(.*?)</p>', answer.text)
    until = re.search(f"You can submit the next one at {TIME}", said)
    assert until
    at = datetime.fromisoformat(until[1])
    assert at.second == 0, "not a few seconds too early"
    now = rows(database, select(func.now()))[0][0]
    assert timedelta(hours=23, minutes=59) < at - now < timedelta(hours=24, minutes=1, seconds=1)
    assert 0 <= int(answer.headers["Retry-After"]) - (at - now).total_seconds() + 61 < 125
    again = person.paste("one")
    assert again.status_code == 303 and "known=1" in again.location, "the same wish leads to its job all the same"


def test_of_several_files_those_beyond_the_limit_are_named_with_the_sentence(
    person: Person, database: Database
) -> None:
    files = [FileStorage(io.BytesIO(f"text {n}".encode()), f"file-{n}.txt") for n in range(4)]
    answer = person.post("/jobs", {"file": files}, content_type="multipart/form-data")
    assert answer.status_code == 422 and jobs(database) == 2
    assert "2 documents submitted." in answer.text
    beyond = re.findall(
        r'<p class="error"><bdi>([^<]+)</bdi>: <span>Documents submitted .*?: 2 of 2.*? at <time', answer.text
    )
    assert beyond == ["file-2.txt", "file-3.txt"]


def test_the_script_of_the_page_is_told_the_sentence_and_its_moment(person: Person) -> None:
    for n in range(2):
        person.paste(f"text {n}")
    file = FileStorage(io.BytesIO(b"text"), "three.txt")
    asked = {"content_type": "multipart/form-data", "headers": {"Accept": "application/json"}}
    answer = person.post("/jobs", {"file": file}, **asked)
    said: dict[str, str] = answer.get_json()
    assert answer.status_code == 429 and said["at"] in said["error"]
    assert datetime.fromisoformat(said["until"]).strftime("%H:%M UTC") == said["at"].partition(",")[0]


def test_too_many_at_once_are_possible_again_when_one_is_done(make_app: Callable[..., Flask], ada: Person) -> None:
    person = Person(make_app(jobs_at_once=1), ada.id)
    first = job_id_in(person.paste("one"))
    answer = person.paste("two")
    assert answer.status_code == 429
    assert "Documents in progress: 1 of 1. You can submit the next one when one of these is done, by" in answer.text
    person.post(f"/jobs/{first}/cancel")
    assert person.paste("two").status_code == 303


def test_a_fresh_summary_counts_and_trying_again_counts_only_at_once(
    make_app: Callable[..., Flask], ada: Person, bench: WebHarness, database: Database
) -> None:
    done, failed = bench.succeeded(), bench.failed(Category.OVERLOADED)
    of_day = Person(make_app(jobs_per_day=2), ada.id)
    fresh = of_day.post(f"/jobs/{done}/again", {"mode": "fresh", "fresh_run_key": "k"})
    assert (
        fresh.status_code == 429
        and "Documents submitted in the last 24 hours: 2 of 2." in fresh.text
        and fresh.headers["Retry-After"]
    )
    waiting = bench.job()
    at_once = Person(make_app(jobs_at_once=1), ada.id)
    refused = at_once.post(f"/jobs/{failed}/again")
    assert refused.status_code == 429 and "Documents in progress: 1 of 1." in refused.text
    assert 'value="again"' in refused.text, "it can still be tried, later"
    at_once.post(f"/jobs/{waiting}/cancel")
    assert at_once.post(f"/jobs/{failed}/again").status_code == 303
    assert at_once.post(f"/jobs/{failed}/again").status_code == 303, "the second click of two"


def test_a_job_is_not_tried_again_for_ever(
    ada: Person, bench: WebHarness, database: Database, settings: Settings
) -> None:
    job_id = bench.failed(Category.OVERLOADED)
    assert 'value="again"' in ada.get(f"/jobs/{job_id}").text
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET attempts = :n"), {"n": MAX_ROUNDS * settings.max_attempts})
    page = ada.get(f"/jobs/{job_id}").text
    assert 'value="again"' not in page and "Submit another document" in page
    assert ada.post(f"/jobs/{job_id}/again").status_code == 409


def test_a_program_is_told_how_much_is_left_and_when_to_come_back(limited: Flask, program: Program) -> None:
    known = Program(limited, program.token)
    left = [known.submit(f"text {n}").headers["RateLimit"].partition(", ")[2] for n in range(2)]
    seconds = re.fullmatch(r'"jobs";r=0;t=(\d+)', left[1])
    assert left[0] == '"jobs";r=1' and seconds is not None
    assert 86_300 < int(seconds[1]) <= 86_400, "a slow machine needs some between the first and the second"
    refused = known.submit("text 3", key="k")
    problem = assert_problem(refused, 429)
    assert problem["code"] == "jobs_per_day" and datetime.fromisoformat(problem["until"])
    assert problem["detail"].startswith(
        "Documents submitted in the last 24 hours: 2 of 2. You can submit the next one at"
    )
    assert '"jobs";q=2;w=86400' in refused.headers["RateLimit-Policy"]
    assert 86_300 < int(refused.headers["Retry-After"]) <= 86_400
    assert known.submit("text 1").status_code == 200
    assert "jobs" not in known.ask("GET", "/jobs").headers["RateLimit"]


def test_who_hands_in_by_a_link_uses_the_owners_limit_and_learns_nothing_of_it(
    limited: Flask, program: Program, person: Person
) -> None:
    link = Program(limited, program.token).ask("POST", "/upload-links", json={"max_uses": 9})
    path = link.get_json()["upload_url"].removeprefix("http://localhost")
    sender = limited.test_client(use_cookies=False)

    def send(words: str) -> Any:
        return sender.post(path, data={"form_token": form_token(sender.get(path).text), "text": words})

    assert send("one").status_code == 303
    assert "1 of 2 left today." in person.get("/").text
    person.paste("two")
    refused = send("The third text.")
    assert refused.status_code == 429 and refused.headers["Retry-After"]
    assert re.search(f"has reached a limit of this site. You can submit documents again at {TIME}", refused.text)
    assert "The third text.</textarea>" in refused.text
    assert "2 of 2" not in refused.text and "24 hours" not in refused.text


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found
    return found[1]


def test_limits_hold_while_redis_is_away(make_app: Callable[..., Flask], ada: Person, database: Database) -> None:
    nowhere = SecretStr(f"redis://127.0.0.1:{free_port()}/0")
    person = Person(make_app(jobs_per_day=1, redis_url=nowhere), ada.id)
    assert person.paste("one").status_code == 303
    assert person.paste("two").status_code == 429 and jobs(database) == 1


def test_tokens_are_shown_where_they_are_limited_or_where_the_site_tells_what_work_costs(
    make_app: Callable[..., Flask], ada: Person, olga: Person, database: Database
) -> None:
    with database.transaction() as session:
        for person in (ada, olga):
            limits.count_tokens(session, person.id, 12_345)
    assert "12,345" not in ada.get("/account").text
    assert "<dt>Tokens used this month</dt><dd>12,345</dd>" in olga.get("/account").text
    assert "<dd>12,345</dd>" in Person(make_app(show_cost_to_owner=True), ada.id).get("/account").text
    capped = Person(make_app(tokens_per_month=10_000), ada.id)
    assert "<dd>12,345 of 10,000</dd>" in capped.get("/account").text
    answer = capped.paste("one")
    assert answer.status_code == 429
    assert "Tokens used this month: 12,345 of 10,000. You can submit the next document at" in answer.text


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(hours=2, seconds=1), "by 14:01 UTC."),
        (timedelta(hours=13), "by 01:00 UTC, 4 Aug 2026."),
        (timedelta(seconds=0), "by 12:00 UTC."),
    ],
)
def test_a_moment_is_rounded_up_and_has_its_day_where_that_is_not_todays(
    app: Flask, after: timedelta, said: str
) -> None:
    now = datetime.fromisoformat("2026-08-03T12:00:00+00:00")
    sentence = words.TimedMessage("", "by %(moment)s.", now + after, now)
    assert str(sentence) == said
    with app.test_request_context():
        assert re.sub("<[^>]+>", "", sentence.__html__()) == said


def test_how_many_jobs_come_before_ones_own_is_said_and_kept_true(ada: Person, bob: Person, database: Database) -> None:
    def hand_in(owner: uuid.UUID, words: str) -> uuid.UUID:
        with database.transaction() as session:
            job_id = factories.submit(session, owner, words.encode()).job_id
            # as the web app tries at once; otherwise the page blames the queue
            outbox.note_dispatched(session, job_id, 1)
            return job_id

    first, second = hand_in(bob.id, "one"), hand_in(bob.id, "two")
    mine, other = hand_in(ada.id, "mine"), hand_in(ada.id, "my other")
    assert "before yours" not in bob.get(f"/jobs/{first}").text
    assert "Accepted. Waiting for a free worker. 1 job before yours.</p>" in ada.get(f"/jobs/{mine}").text
    page = ada.get(f"/jobs/{other}").text
    assert "Accepted. Waiting for a free worker. 3 jobs before yours.</p>" in page
    assert proof_in(page)
    poll = re.search(r'hx-get="([^"]+)"', page)
    assert poll
    address = poll[1].replace("&amp;", "&")
    assert ada.get(address, headers={"HX-Request": "true"}).status_code == 204
    with database.transaction() as session:
        taken = outbox.take_due(session, queue=factories.QUEUE, limit=2, postpone_seconds=60)
        assert [owed.job_id for owed in taken] == [first, mine]
        late = "UPDATE deliveries SET not_before = not_before - interval '20 seconds', dispatched_at = NULL"
        session.execute(text(late))
    answer = ada.get(address, headers={"HX-Request": "true"})
    assert answer.status_code == 204, "it waits for its turn, and the queue is not to blame"
    bob.post(f"/jobs/{second}/cancel")
    fragment = ada.get(address, headers={"HX-Request": "true"})
    assert fragment.status_code == 200 and "2 jobs before yours" in fragment.text
    assert 'id="live"' not in fragment.text, "a screen reader is not told each time"
