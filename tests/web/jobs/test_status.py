from __future__ import annotations

import re
import uuid

import pytest
from flask import Flask
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import NewCall
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.states import State
from tasks.worker.retry_policy import TRANSIENT
from tests.support import factories
from tests.web.conftest import Browser, Person, WebHarness, poll_address
from webapp.jobs import messages

HX = {"HX-Request": "true"}


def interval(page: str) -> int:
    found = re.search(r'hx-trigger="every (\d+)s, poll:now"', page)
    assert found, page
    return int(found[1])


def sentence(page: str, kind: str = "say") -> str:
    return re.sub(r"<[^>]+>", "", page.partition(f'<p class="{kind}">')[2].partition("</p>")[0])


SLOW_MACHINE_SECONDS = 60
"""A slow machine may take this long from the start of a test until the page is rendered."""


def seconds_in(words: str) -> int:
    """Read a duration such as `1 min 40 s`."""
    found = re.fullmatch(r"(?:(\d+) min)? ?(?:(\d+) s)?", words)
    assert found and words, words
    return int(found[1] or 0) * 60 + int(found[2] or 0)


def more(page: str) -> str:
    return sentence(page, "say-more")


def test_an_unchanged_job_is_answered_without_a_word(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.job()}").text
    answer = ada.get(poll_address(page), headers=HX)
    assert (answer.status_code, answer.data) == (204, b"")
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_change_brings_the_fragment_with_title_and_announcement(ada: Person, bench: WebHarness) -> None:
    job_id = bench.job(title="Harbour <b>report</b>")
    address = poll_address(ada.get(f"/jobs/{job_id}").text)
    bench.claim(job_id)
    answer = ada.get(address, headers=HX)
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert answer.text.count('id="job-status"') == 1
    assert '<div id="live" hx-swap-oob="innerHTML">Working, attempt 1 of 3</div>' in answer.text
    assert "<title>Working – Harbour &lt;b&gt;report&lt;/b&gt;</title>" in answer.text
    assert ada.get(poll_address(answer.text), headers=HX).status_code == 204


def test_a_step_is_shown_and_not_announced(ada: Person, bench: WebHarness) -> None:
    job_id = bench.job()
    claim = bench.claim(job_id)
    address = poll_address(ada.get(f"/jobs/{job_id}").text)
    bench.read(claim)
    answer = ada.get(address, headers=HX)
    assert "12 pages" in answer.text and 'id="live"' not in answer.text


def test_the_page_and_the_fragment_are_the_same_template(ada: Person, bench: WebHarness) -> None:
    def status_in(html: str) -> str:
        body = html.partition('<section class="sheet" id="job-status"')[2]
        body = re.sub(r'value="[^"]{30,}"', "", body)
        return body.rpartition("</section>")[0].strip()

    job_id = bench.job()
    page, part = ada.get(f"/jobs/{job_id}").text, ada.get(f"/jobs/{job_id}/status", headers=HX).text
    assert status_in(part) == status_in(page) and len(status_in(page)) > 500


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_a_finished_job_is_polled_no_more(
    ada: Person, bench: WebHarness, database: Database, account_id: uuid.UUID, state: str
) -> None:
    if state == "succeeded":
        job_id = bench.succeeded()
    elif state == "failed":
        job_id = bench.failed(Category.OVERLOADED)
    else:
        job_id = bench.job()
        with database.transaction() as session:
            transitions.cancel(session, job_id, account_id)
    for html in (ada.get(f"/jobs/{job_id}").text, ada.get(f"/jobs/{job_id}/status?rev=1&t=2", headers=HX).text):
        for attribute in ("hx-get", "hx-trigger", "data-poll", "http-equiv"):
            assert attribute not in html


def test_the_interval_grows_with_age_and_the_tier_makes_it_take_effect(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    job_id = bench.job(deadline_seconds=600)
    bench.claim(job_id)
    page = ada.get(f"/jobs/{job_id}").text
    assert interval(page) == 2
    for age, expected in ((70, 5), (590, 5), (700, 15)):
        with database.transaction() as session:
            session.execute(text("UPDATE jobs SET deadline_at = now() + make_interval(secs => :s)"), {"s": 600 - age})
        answer = ada.get(poll_address(page), headers=HX)
        if interval(page) == expected:
            assert answer.status_code == 204
            continue
        assert answer.status_code == 200
        page = answer.text
        assert interval(page) == expected
        assert 'id="live"' not in page, "nothing happened, so a screen reader stays quiet"


@pytest.mark.parametrize(("delay", "expected"), [(300, 15), (9, 9), (0, 2)])
def test_a_wait_is_polled_towards_its_end(ada: Person, bench: WebHarness, delay: float, expected: int) -> None:
    job_id = bench.waiting(Category.RATE_LIMITED, delay)
    assert interval(ada.get(f"/jobs/{job_id}").text) == expected


def test_waiting_to_retry_says_why_and_until_when(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.waiting(Category.RATE_LIMITED, 72)}").text
    found = re.fullmatch(
        r"The AI service had too many requests\. Next try at \d\d:\d\d UTC \(in (.+)\), attempt 2 of 3\.",
        sentence(page),
    )
    assert found and 72 - SLOW_MACHINE_SECONDS <= seconds_in(found[1]) <= 72


def test_waiting_longer_than_usual_is_said(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    address = poll_address(ada.get(f"/jobs/{job_id}").text)
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '100 seconds'"))
    answer = ada.get(address, headers=HX)
    assert answer.status_code == 200, "the row is as it was, but the page has something new to say"
    found = re.fullmatch(r"Waiting longer than usual: (.+) so far\.", sentence(answer.text))
    assert found and 100 <= seconds_in(found[1]) <= 100 + SLOW_MACHINE_SECONDS


def test_no_worker_is_said(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '100 seconds'"))
    assert "no worker has responded" in sentence(ada.get(f"/jobs/{job_id}").text)


@pytest.mark.parametrize("waiting", [True, False], ids=["retry_wait", "queued"])
def test_a_stopped_lane_is_said(ada: Person, bench: WebHarness, database: Database, waiting: bool) -> None:
    job_id = bench.waiting(Category.OVERLOADED, 0) if waiting else bench.job()
    address = poll_address(ada.get(f"/jobs/{job_id}").text)
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code=None)
    with database.transaction() as session:
        transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    answer = ada.get(address, headers=HX)
    assert answer.status_code == 200
    assert sentence(answer.text) == "The service can’t work right now. Nothing is wrong with your file."
    waits = "The next try waits" if waiting else "Your document waits"
    assert re.fullmatch(
        rf"The budget of this site at the AI service was used up\. {waits} until the operator has fixed this\. "
        r"If it isn’t fixed by \d\d:\d\d UTC, the job fails and we say so here\. Waiting doesn’t count as an attempt\.",
        more(answer.text),
    )
    assert ada.get(poll_address(answer.text), headers=HX).status_code == 204


@pytest.mark.parametrize("category", [Category.QUOTA, Category.AUTH, Category.PERMISSION])
def test_a_job_that_failed_by_the_sites_own_trouble_does_not_blame_the_document(
    ada: Person, bench: WebHarness, category: Category
) -> None:
    page = ada.get(f"/jobs/{bench.failed(category)}").text
    assert sentence(page) == "The service could not do this. Nothing is wrong with your file."
    assert more(page).startswith(messages.failure_of(category, None).what)
    assert "Contact the operator of this site, who can fix this and run it again." in more(page)
    assert "Submit another document" not in page


def test_pasted_text_is_not_called_a_file() -> None:
    words = messages.lane_words("quota", None, stopped=True, filename=None)
    assert words.what == "The service can’t work right now. Nothing is wrong with your text."


def test_a_cooling_lane_is_said_with_its_end(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    with database.transaction() as session:
        lanes.cool(session, "local", seconds=40, category=Category.RATE_LIMITED, code=None)
    with database.transaction() as session:
        transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    assert re.fullmatch(
        r"The AI service had too many requests\. Your document waits and continues after \d\d:\d\d:\d\d UTC\.",
        sentence(ada.get(f"/jobs/{job_id}").text),
    )


def test_progress_is_shown_only_where_it_was_measured(ada: Person, bench: WebHarness) -> None:
    job_id = bench.job()
    claim = bench.claim(job_id)
    assert "<progress" not in ada.get(f"/jobs/{job_id}").text
    bench.read(claim, done=3, total=8)
    page = ada.get(f"/jobs/{job_id}").text
    assert 'value="3" max="8"' in page and "3 of 8 parts done" in page and "12 pages, 8,410 words" in page


def test_a_call_without_an_answer_is_admitted(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    claim = bench.claim(job_id)
    with database.transaction() as session:
        call = NewCall("summarise", "local", "p", "m", limit=4, probe_seconds=9)
        calls.open_call(session, job_id, claim.generation, call)
        transitions.retry_later(session, claim, category=Category.UNCERTAIN, delay_seconds=30)
    assert (
        "One call to the AI service ended without an answer. The service may have billed it."
        in ada.get(f"/jobs/{job_id}").text
    )


def test_the_page_works_without_javascript(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.job()}").text
    assert '<noscript><meta http-equiv="refresh" content="15"></noscript>' in page
    assert "Refresh status" in page and 'method="post"' in page


def test_a_poll_after_the_session_ended_leads_to_the_sign_in_page(browser: Browser, bench: WebHarness) -> None:
    job_id = bench.job()
    here = {"HX-Request": "true", "HX-Current-URL": f"http://localhost/jobs/{job_id}"}
    answer = browser.get(f"/jobs/{job_id}/status?rev=1&t=2", headers=here)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (401, f"/login?next=/jobs/{job_id}")
    assert answer.data == b""
    evil = browser.get(
        f"/jobs/{job_id}/status", headers={**here, "HX-Current-URL": "http://evil.example//evil.example/"}
    )
    assert evil.headers["HX-Redirect"] == "/login"
    plain = browser.get(f"/jobs/{job_id}")
    assert (plain.status_code, plain.location) == (302, f"/login?next=/jobs/{job_id}")


def test_a_poll_for_a_job_that_is_gone_leads_to_the_page_that_says_so(ada: Person) -> None:
    gone = uuid.uuid4()
    answer = ada.get(f"/jobs/{gone}/status?rev=1", headers=HX)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (404, f"/jobs/{gone}")
    assert ada.get(f"/jobs/{gone}").status_code == 404


@pytest.mark.parametrize("query", ["rev=x", "rev=", "t=%00", "rev=99999999999999999999", ""])
def test_a_broken_poll_gets_the_fragment(ada: Person, bench: WebHarness, query: str) -> None:
    assert ada.get(f"/jobs/{bench.job()}/status?{query}", headers=HX).status_code == 200


def test_a_poll_that_changes_nothing_is_one_statement_that_writes_nothing_and_sets_no_cookie(
    app: Flask, ada: Person, bench: WebHarness, database_statements: list[str]
) -> None:
    waiting, running = bench.job(), bench.job()
    bench.claim(running)
    for job_id in (waiting, running):
        address = poll_address(ada.get(f"/jobs/{job_id}").text)
        database_statements.clear()
        answer = ada.get(address, headers=HX)
        assert (answer.status_code, answer.headers.get("Set-Cookie")) == (204, None)
        assert len(database_statements) == 1 and database_statements[0].startswith("SELECT ")


@pytest.mark.parametrize("category", list(Category))
def test_every_cause_has_words(category: Category, ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.failed(category, 'a_code_nobody_knows')}").text
    failure = messages.ending_of(category, None, "harbour.txt")
    assert sentence(page) == failure.what and more(page) == failure.so
    offered = 'value="again"' in page
    assert offered is (category in TRANSIENT | {Category.UNCERTAIN, Category.DEADLINE})


def test_every_refusal_has_words_of_its_own() -> None:
    from tasks.intake.errors import Refusal

    general = messages.failure_of(Category.INVALID_DOCUMENT, None)
    texts = {messages.failure_of(Category.INVALID_DOCUMENT, refusal).what for refusal in Refusal}
    assert len(texts) == len(Refusal) and general.what not in texts


def test_every_state_has_a_word_and_an_icon(
    ada: Person, bench: WebHarness, account_id: uuid.UUID, database: Database
) -> None:
    jobs = {State.SUCCEEDED: bench.succeeded(), State.FAILED: bench.failed(Category.QUOTA)}
    jobs |= {State.RETRY_WAIT: bench.waiting(Category.TIMEOUT), State.QUEUED: bench.job(), State.RUNNING: bench.job()}
    bench.claim(jobs[State.RUNNING])
    jobs |= {State.CANCEL_REQUESTED: bench.job(), State.CANCELLED: bench.job()}
    bench.claim(jobs[State.CANCEL_REQUESTED])
    with database.transaction() as session:
        transitions.cancel(session, jobs[State.CANCEL_REQUESTED], account_id)
        transitions.cancel(session, jobs[State.CANCELLED], account_id)
    home = ada.get("/").text
    for state in State:
        page = ada.get(f"/jobs/{jobs[state]}").text
        for html in (page, home):
            badge = html.partition(f'<span class="badge" data-state="{state}">')[2].partition("</span>")[0]
            assert badge.startswith("<svg") and badge.endswith(str(messages.BADGES[state]))
        assert sentence(page)


def test_what_happened_is_told_in_order(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.waiting(Category.OVERLOADED, 0)
    claim = bench.claim(job_id)
    with database.transaction() as session:
        transitions.release(session, claim, reason="shutdown", interrupted=True)
    claim = bench.claim(job_id)
    with database.transaction() as session:
        transitions.succeed(session, claim, text="Done.", facts={})
    log = ada.get(f"/jobs/{job_id}").text.partition('<ol class="log">')[2].partition("</ol>")[0]
    lines = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r"<span>(.*?)</span>", log)]
    assert [line.partition(" Next try")[0] for line in lines] == [
        "Accepted and waiting for a free worker.",
        "Attempt 1 of 3 started.",
        "The AI service was busy.",
        "Attempt 2 of 3 started.",
        "Returned to the queue unfinished, because the worker had to stop. This doesn’t count as an attempt.",
        "Attempt 2 of 3 started.",
        "Summary saved.",
    ]
