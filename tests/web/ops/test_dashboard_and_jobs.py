"""Tests what an operator sees: the site now, its last day, its jobs; and what stays hidden even from operators."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport, NewCall
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.keys import reference_of
from tasks.ledger.reports import job_views, last_day
from tasks.ledger.states import CallOutcome, Event, State
from tasks.settings import Settings
from tasks.worker.endings import StopReason
from tests.support import factories
from tests.web.conftest import Person, WebHarness, poll_address, rows

SECRET_TITLE = "Dismissal of the harbour master"
A_MINUTE_AGO = "now() - interval '1 minute'"
HX = {"HX-Request": "true"}


def change(database: Database, statement: str) -> None:
    with database.transaction() as session:
        session.execute(text(statement))


def alive(database: Database, name: str = "worker-1") -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, name, queue=factories.QUEUE, slots=16)


def tile(page: str, name: str) -> str:
    """Return the text under a figure's name."""
    found = re.search(rf"<dt>{re.escape(name)}</dt><dd>(.*?)</dd>", page, re.S)
    assert found, f"no {name} in:\n{page}"
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split())


def alarms(page: str) -> list[str]:
    return [
        " ".join(re.sub(r"<[^>]+>", "", each).split()) for each in re.findall(r'<p class="notice.*?</p>', page, re.S)
    ]


def listed(page: str) -> list[str]:
    """Return the references in the list of jobs."""
    return re.findall(r'<a class="mono" href="[^"]+">(WB-[^<]+)</a>', page)


@pytest.mark.parametrize(("seconds", "raised"), [(300, False), (3600, True)])
def test_a_service_that_asks_for_a_long_wait_is_an_alarm(
    olga: Person, database: Database, settings: Settings, seconds: float, raised: bool
) -> None:
    alive(database)
    with database.transaction() as session:
        lanes.cool(session, settings.lane, seconds=seconds, category=Category.RATE_LIMITED, code=None)
    found = alarms(olga.get("/ops").text)
    assert any(alarm.startswith("The AI service asked for a long wait.") for alarm in found) is raised


def test_no_worker_is_the_first_alarm_and_says_since_when(olga: Person, bench: WebHarness, database: Database) -> None:
    bench.job()
    assert alarms(olga.get("/ops").text)[0].startswith("No worker has ever been seen.")
    alive(database)
    assert alarms(olga.get("/ops").text) == []
    change(database, "UPDATE workers SET seen_at = now() - interval '3 hours'")
    change(database, "UPDATE deliveries SET not_before = now() - interval '3 hours'")
    page = olga.get("/ops").text
    assert re.match(r"No worker seen since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, 3 h ago\.", alarms(page)[0])
    assert (tile(page, "Workers alive"), tile(page, "Longest wait for a worker")) == ("0 1 silent", "3 h")


def test_a_worker_that_said_goodbye_is_remembered(olga: Person, database: Database) -> None:
    alive(database)
    with database.transaction() as session:
        leases.sign_off(session, "worker-1", forget_silent_seconds=60)
        assert job_views.live_workers(session, queue=factories.QUEUE, seen_within_seconds=60) == 0
    page = olga.get("/ops").text
    assert alarms(page)[0].startswith("No worker seen since ")
    assert tile(page, "Workers alive") == "0"


def test_now_shows_what_waits_and_why(olga: Person, bench: WebHarness, database: Database) -> None:
    alive(database)
    bench.job()
    bench.claim(bench.job())
    bench.waiting(Category.RATE_LIMITED)
    bench.waiting(Category.RATE_LIMITED)
    cancelling = bench.job()
    bench.claim(cancelling)
    with database.transaction() as session:
        transitions.cancel(session, cancelling, bench.owner)
    page = olga.get("/ops").text
    shown = {name: tile(page, name) for name in ("Waiting", "Active claims", "Waiting to retry", "Orphans")}
    assert shown == {"Waiting": "1", "Active claims": "2 1 cancelling", "Waiting to retry": "2", "Orphans": "0"}
    assert re.search(r"rate_limited</code>.*?category=rate_limited\">2</a>", page, re.S)
    assert tile(page, "Deliveries owed") == "3 0 overdue"


def test_each_trouble_is_an_alarm(olga: Person, bench: WebHarness, database: Database) -> None:
    alive(database)
    orphan = bench.job()
    change(database, f"DELETE FROM deliveries WHERE job_id = '{orphan}'")
    bench.job()
    change(
        database, "UPDATE deliveries SET due_at = now() - interval '1 minute', not_before = now() - interval '1 minute'"
    )
    with database.transaction() as session:
        lanes.stop(session, f"{factories.QUEUE}:local", category=Category.QUOTA, code=None)
    said = " ".join(alarms(olga.get("/ops").text))
    for words in (
        "1 orphaned job",
        "The way to the AI service is stopped",
        "1 delivery overdue",
        "longer than usual",
    ):
        assert words in said
    assert "an operator resumes it" in olga.get("/ops").text


@pytest.mark.parametrize("asked", [599.0, 602.0])
def test_a_long_wait_that_the_provider_asks_for_is_an_alarm(
    olga: Person, bench: WebHarness, database: Database, asked: float
) -> None:
    alive(database)
    with database.transaction() as session:
        lanes.cool(session, f"{factories.QUEUE}:local", seconds=asked, category=Category.RATE_LIMITED, code=None)
    assert ("asked for a long wait" in " ".join(alarms(olga.get("/ops").text))) is (asked > 600)


def test_the_page_asks_again_and_hears_nothing_while_nothing_changed(
    olga: Person, bench: WebHarness, database: Database
) -> None:
    alive(database)
    address = poll_address(olga.get("/ops").text)
    assert olga.get(address, headers=HX).status_code == 204
    bench.job()
    change(database, "UPDATE workers SET seen_at = now() - interval '2 minutes'")
    fragment = olga.get(address, headers=HX)
    assert fragment.status_code == 200 and '<div id="live" hx-swap-oob="innerHTML">1 alarm</div>' in fragment.text


def call(bench: WebHarness, database: Database, job_id: uuid.UUID, report: CallReport) -> None:
    claim = bench.claim(job_id)
    with database.transaction() as session:
        made = NewCall("summarise", "local", "openai", "gpt-5-mini", limit=16, probe_seconds=60)
        call_id = calls.open_call(session, job_id, claim.generation, made)
        assert isinstance(call_id, uuid.UUID)
        calls.close_call(session, call_id, report)
    with database.transaction() as session:
        transitions.succeed(session, claim, text="Done.", facts={})


def test_the_last_day_adds_up(
    make_app: Callable[..., Flask], bench: WebHarness, database: Database, olga: Person
) -> None:
    operator = Person(make_app(model_prices="gpt-5-mini=1/2"), olga.id)
    call(bench, database, bench.job(), CallReport(CallOutcome.SUCCEEDED, input_tokens=1000, output_tokens=500))
    call(bench, database, bench.job(), CallReport(CallOutcome.UNKNOWN))
    bench.failed(Category.AUTH)
    bench.failed(Category.AUTH)
    bench.failed(Category.QUOTA)
    bench.waiting(Category.OVERLOADED)
    old = bench.failed(Category.INTERNAL)
    past = "created_at = now() - interval '2 days', finished_at = now() - interval '25 hours'"
    change(database, f"UPDATE jobs SET {past} WHERE id = '{old}'")
    stopped = bench.job()
    with database.transaction() as session:
        transitions.release(session, bench.claim(stopped), reason="shutdown", interrupted=True)
        transitions.release(session, bench.claim(bench.job()), reason="continue", interrupted=False)
    page = operator.get("/ops/day").text
    shown = {
        name: tile(page, name) for name in ("Accepted", "Saved", "Failed", "Cancelled", "Retries", "Interruptions")
    }
    assert shown == {
        "Accepted": "8",
        "Saved": "2",
        "Failed": "3",
        "Cancelled": "0",
        "Retries": "1",
        "Interruptions": "1",
    }
    assert tile(page, "Provider calls") == "2 1 uncertain"
    assert tile(page, "Tokens in · out") == "1,000 · 500 1 call not reported"
    assert tile(page, "Cost") == "0.0020"
    assert re.findall(r"category=(\w+)\">(\d)</a>", page) == [("auth", "2"), ("quota", "1")]
    assert re.fullmatch(r"\d s · \d s p50 · p95", tile(page, "Being worked on"))
    assert page.count("<svg viewBox") == 7 and "style=" not in page  # six charts and the logo of the site


def test_a_day_on_which_nothing_happened_is_a_page_too(olga: Person) -> None:
    page = olga.get("/ops/day").text
    assert tile(page, "Accepted") == "0" and tile(page, "Waiting for a worker") == "– p50 · p95"


def test_each_filter_and_all_of_them(olga: Person, bench: WebHarness, database: Database) -> None:
    auth = bench.failed(Category.AUTH)
    quota = bench.failed(Category.QUOTA)
    waiting = bench.job()
    with database.transaction() as session:
        other = factories.make_account(session, "other@example.org")
        theirs = factories.submit(session, other, b"Another text.", workflow="action_items", options={}).job_id
    change(database, f"UPDATE jobs SET created_at = now() - interval '2 days' WHERE id = '{quota}'")
    owner = rows(database, text(f"SELECT email FROM accounts WHERE id = '{bench.owner}'"))[0][0]
    expected = {
        "": [theirs, waiting, auth, quota],
        "state=failed": [auth, quota],
        "category=auth": [auth],
        "workflow=action_items": [theirs],
        "account=OTHER@example.org": [theirs],
        f"account={other}": [theirs],
        "age=day": [theirs, waiting, auth],
        "age=over-day": [quota],
        f"account={owner}&state=failed&category=quota&age=over-day&workflow=summary": [quota],
        f"account={owner}&state=succeeded&category=quota": [],
        "state=nonsense&age=nonsense&category=nonsense": [theirs, waiting, auth, quota],
    }
    for query, jobs in expected.items():
        assert listed(olga.get(f"/ops/jobs?{query}").text) == [reference_of(job) for job in jobs], query
    nobody = olga.get("/ops/jobs?account=nobody@example.org").text
    assert "There is no account with this address or id." in nobody and listed(nobody) == []


def test_pages_follow_each_other_without_a_gap_or_a_repeat(
    olga: Person, bench: WebHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [bench.job() if number % 3 else bench.failed(Category.AUTH) for number in range(11)]
    failed = [reference_of(job) for job in made[::-1] if made.index(job) % 3 == 0]
    monkeypatch.setattr("webapp.ops.jobs.PAGE", 2)
    monkeypatch.setattr("tasks.ledger.reports.job_search.MAX_CHECKED", 3)

    def walk(query: str) -> tuple[list[str], int]:
        seen, asked, at = [], 0, f"/ops/jobs?{query}"
        while at:
            page = olga.get(at).text
            seen, asked = seen + listed(page), asked + 1
            following = re.search(r'rel="next" href="([^"]+)"', page)
            at = following[1].replace("&amp;", "&") if following else ""
            assert asked < 20
        return seen, asked

    assert walk("")[0] == [reference_of(job) for job in made[::-1]]
    assert walk("state=failed")[0] == failed
    assert walk("state=queued&workflow=summary")[0] == [each for each in walk("")[0] if each not in failed]
    assert walk("workflow=summary&state=succeeded") == ([], 1), "none is in that state, which is soon known"
    both, asked = walk(f"account={bench.owner}&workflow=summary&age=day")
    assert len(both) == 11 and asked > 5


def test_a_page_that_had_to_look_at_too_many_says_how_far_it_came(
    olga: Person, bench: WebHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = bench.failed(Category.AUTH)
    for _ in range(4):
        bench.failed(Category.QUOTA)
    for _ in range(4):
        bench.waiting(Category.AUTH)
    monkeypatch.setattr("tasks.ledger.reports.job_search.MAX_CHECKED", 3)
    page = olga.get("/ops/jobs?state=failed&category=auth").text
    assert listed(page) == [] and "Looked through jobs back to" in page and "No job fits" not in page
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following
    page = olga.get(following[1].replace("&amp;", "&")).text
    assert listed(page) == [reference_of(oldest)]


def test_a_search_leads_to_the_job(olga: Person, bench: WebHarness) -> None:
    job_id = bench.job()
    for name in (str(job_id), f" {str(job_id).upper()} ", reference_of(job_id), reference_of(job_id).lower()):
        answer = olga.get("/ops/jobs", query_string={"q": name})
        assert (answer.status_code, answer.location) == (303, f"/ops/jobs/{job_id}"), name
    for name in ("WB-0000-0000", str(uuid.uuid4()), "<b>x</b>"):
        answer = olga.get("/ops/jobs", query_string={"q": name})
        assert answer.status_code == 404 and "<b>x" not in answer.text


def test_a_job_is_shown_with_all_its_rows_and_none_of_its_words(
    make_app: Callable[..., Flask], olga: Person, bench: WebHarness, database: Database
) -> None:
    operator = Person(make_app(model_prices="gpt-5-mini=1/2"), olga.id)
    job_id = bench.job(title=SECRET_TITLE)
    report = CallReport(
        CallOutcome.FAILED, Category.RATE_LIMITED, "slow_down", 429, "req_abc", "resp_abc", "gpt-5-mini", 1000, 0
    )
    call(bench, database, job_id, report)
    page = operator.get(f"/ops/jobs/{job_id}").text
    for fact in ("req_abc", "resp_abc", "429", "slow_down", "1000 in, 0 out", "0.0010", "succeeded", "its owner"):
        assert fact in page, fact
    everywhere = page + operator.get("/ops/jobs").text + operator.get("/ops").text + operator.get("/ops/day").text
    assert SECRET_TITLE not in everywhere and "harbour" not in everywhere and "Done." not in everywhere
    assert operator.get(f"/ops/jobs/{uuid.uuid4()}").status_code == 404


def test_a_document_is_opened_for_a_reason_once_and_everybody_can_see_that_it_was(
    olga: Person, ada: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.succeeded("The <b>pier</b> is closed.", title=SECRET_TITLE)
    before = rows(database, text(f"SELECT state, finished_at, revision FROM jobs WHERE id = '{job_id}'"))[0]
    refused = olga.post(f"/ops/jobs/{job_id}/open", {"cause": "  "})
    assert refused.status_code == 422 and SECRET_TITLE not in refused.text
    opened = olga.post(f"/ops/jobs/{job_id}/open", {"cause": "The owner asked <why>"})
    assert opened.status_code == 200 and SECRET_TITLE in opened.text and "no-store" in opened.headers["Cache-Control"]
    assert "The &lt;b&gt;pier&lt;/b&gt; is closed." in opened.text
    again = olga.get(f"/ops/jobs/{job_id}").text
    assert SECRET_TITLE not in again and "olga@example.org" in again and "The owner asked &lt;why&gt;" in again
    assert "The operator of this site opened your document." in ada.get(f"/jobs/{job_id}").text
    after = rows(database, text(f"SELECT state, finished_at, revision FROM jobs WHERE id = '{job_id}'"))[0]
    assert (after[0], after[1], after[2]) == (State.SUCCEEDED, before[1], before[2] + 1)
    with database.transaction() as session:
        assert [event.event for event in job_views.events_of(session, job_id)].count(Event.INSPECT) == 1


def test_opening_a_job_that_is_being_worked_on_does_not_disturb_it(
    olga: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.job()
    claim = bench.claim(job_id)
    assert "It was not read" in olga.post(f"/ops/jobs/{job_id}/open", {"cause": "looking"}).text
    with database.transaction() as session:
        assert transitions.succeed(session, claim, text="Done.", facts={}) is State.SUCCEEDED


def test_the_figures_and_the_workers_call_a_shutdown_by_the_same_word() -> None:
    assert last_day.SHUTDOWN == StopReason.SHUTDOWN
