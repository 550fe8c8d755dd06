"""Tests the operators' decisions about work, and what everybody else sees of them."""

from __future__ import annotations

import re
import uuid

from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate as delivery_gate
from tasks.ledger.delivery.gate import GateState
from tasks.ledger.errors import Category
from tasks.ledger.history import audit_log
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.replays import replays
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.settings import Settings
from tests.support import factories
from tests.support.browser.html import words
from tests.web.conftest import Person, WebHarness, poll_address
from webapp.jobs import messages

HX = {"HX-Request": "true"}


def gate(database: Database) -> GateState:
    with database.transaction() as session:
        return delivery_gate.load(session, factories.QUEUE)


def state(database: Database, job_id: uuid.UUID) -> State:
    with database.transaction() as session:
        return factories.state_of(session, job_id)


def test_the_work_is_paused_drained_and_resumed_and_the_count_is_live(
    olga: Person, bench: WebHarness, database: Database
) -> None:
    claim = bench.claim(bench.job())
    assert "Work goes on." in words(olga.get("/ops/work").text)
    assert olga.post("/ops/work/pause", {"note": "a <b>deploy</b>"}).status_code == 303
    page = olga.get("/ops/work").text
    assert "The work is paused" in page and "olga@example.org: a &lt;b&gt;deploy&lt;/b&gt;" in page
    assert olga.post("/ops/work/drain").status_code == 303
    page = olga.get("/ops/work").text
    assert "Claims are stopped. 1 job may still finish." in words(page)
    address = poll_address(page)
    assert olga.get(address, headers=HX).status_code == 204
    with database.transaction() as session:
        transitions.succeed(session, claim, text="done", facts={})
    answer = olga.get(address, headers=HX)
    assert answer.status_code == 200 and "<html" not in answer.text
    assert "nothing is active: the site is drained" in answer.text and "0 jobs active</div>" in answer.text

    refused = olga.post("/ops/work/resume", {"at_once": "many", "note": "kept"})
    assert refused.status_code == 422 and 'value="kept"' in refused.text and "Write a number from 1" in refused.text
    assert gate(database).mode == "draining"
    olga.post("/ops/work/resume", {"at_once": "3"})
    assert (gate(database).mode, gate(database).at_once) == ("limited", 3)
    assert "with at most 3 at once" in olga.get("/ops/work").text
    olga.post("/ops/work/resume")
    assert gate(database).mode == "open"
    listed = words(olga.get("/ops/decisions").text)
    assert listed.count("olga@example.org") == 4 and "stopped claims, to drain" in listed


def test_a_stopped_lane_is_opened_and_the_record_says_who(olga: Person, database: Database, settings: Settings) -> None:
    with database.transaction() as session:
        lanes.stop(session, settings.lane, category=Category.AUTH, code="invalid_api_key")
    page = words(olga.get("/ops/work").text)
    assert "stopped . The AI service refused the credentials of this site." in page
    assert 'href="/ops/work"' in olga.get("/ops").text
    olga.post("/ops/work/lane", {"note": "a new key is set"})
    with database.transaction() as session:
        assert lanes.check(session, settings.lane) is None
        (decided,) = audit_log.newest(session, factories.QUEUE, limit=5)
    assert (decided.what, decided.by, decided.note) == ("open_lane", "olga@example.org", "a new key is set")
    assert "Open the lane" not in olga.get("/ops/work").text


def test_older_decisions_are_a_page_away(olga: Person, database: Database) -> None:
    with database.transaction() as session:
        for n in range(51):
            delivery_gate.pause(session, factories.QUEUE, by="ops", note=f"number {n}.")
    page = olga.get("/ops/decisions").text
    assert "number 50." in page and "number 0." not in page
    found = re.search(r'href="(/ops/decisions\?before=\d+)"', page)
    assert found is not None
    assert "number 0." in olga.get(found[1]).text


def test_failed_work_is_looked_at_and_then_put_back(olga: Person, bench: WebHarness, database: Database) -> None:
    jobs = [bench.failed(Category.AUTH, "invalid_api_key") for _ in range(2)]
    other = bench.failed(Category.CONTENT_POLICY)
    page = olga.get("/ops/replays").text
    assert "/ops/replays/new?category=auth&amp;code=invalid_api_key" in page
    dry = olga.get("/ops/replays/new?category=auth&code=invalid_api_key").text
    assert "2 jobs would go back to the queue" in words(dry) and "Nothing has been changed yet." in dry
    assert state(database, jobs[0]) is State.FAILED

    form = {"category": "auth", "code": "invalid_api_key", "cause": "credentials_renewed", "per_minute": "30"}
    for wrong in ({"note": " "}, {"note": "x", "cause": "whim"}, {"note": "x", "per_minute": "601"}):
        refused = olga.post("/ops/replays", {**form, **wrong})
        assert refused.status_code == 422 and 'class="error"' in refused.text
    begun = olga.post("/ops/replays", {**form, "note": "the key was renewed"})
    assert begun.status_code == 303
    assert (state(database, jobs[0]), state(database, jobs[1])) == (State.QUEUED, State.FAILED)
    page = words(olga.get(begun.location).text)
    assert "Running: 1 of 2 replayed." in page and "waits for its turn" in page and "the key was renewed" in page
    again = olga.post("/ops/replays", {**form, "note": "a second click"})
    assert again.status_code == 409 and "Nothing would be replayed." in again.text
    assert "already waiting for a worker" in words(olga.get(f"/ops/replays/new?job={jobs[0]}").text)
    with database.transaction() as session:
        facts = job_views.events_of(session, jobs[0])[-1].facts
    assert (facts["by"], facts["cause"]) == ("olga@example.org", "credentials_renewed")
    assert "olga@example.org" in olga.get(f"/ops/jobs/{jobs[0]}").text
    assert f"/ops/replays/new?job={other}" in olga.get(f"/ops/jobs/{other}").text

    assert olga.post(f"{begun.location}/stop", {"note": "enough"}).status_code == 303
    stopped = olga.get(begun.location).text
    assert "Stopped by olga@example.org. 1 job stayed as they were." in words(stopped)
    olga.get(poll_address(stopped), headers=HX)
    assert state(database, jobs[1]) is State.FAILED


def test_a_replay_that_waits_says_for_what(
    olga: Person, bench: WebHarness, database: Database, settings: Settings
) -> None:
    job_id = bench.failed(Category.AUTH)
    with database.transaction() as session:
        lanes.stop(session, settings.lane, category=Category.AUTH, code=None)
    assert "It waits until the lane to the AI service is opened." in words(
        olga.get(f"/ops/replays/new?job={job_id}").text
    )
    form = {"job": str(job_id), "cause": "other", "note": "x", "per_minute": "1"}
    begun = olga.post("/ops/replays", form)
    assert "It waits until the lane to the AI service is opened." in words(olga.get(begun.location).text)
    olga.post("/ops/work/lane")
    with database.transaction() as session:
        assert replays.carry_on(session, factories.QUEUE, settings.replay_terms) is not None
    assert state(database, job_id) is State.QUEUED


def test_a_choice_of_nothing_is_not_there(olga: Person) -> None:
    for address in ("new", "new?category=nonsense", "new?job=nonsense", str(uuid.uuid4()), f"{uuid.uuid4()}/now"):
        assert olga.get(f"/ops/replays/{address}").status_code == 404, address


def test_people_are_told_of_a_pause_and_may_hand_in(
    ada: Person, olga: Person, bench: WebHarness, database: Database
) -> None:
    waits, retries = bench.job(), bench.waiting(Category.OVERLOADED, 0)
    with database.transaction() as session:
        session.execute(
            text("UPDATE deliveries SET dispatched_at = NULL, not_before = now() - interval '99 s', due_at = now()")
        )
    addresses = {job_id: poll_address(ada.get(f"/jobs/{job_id}").text) for job_id in (waits, retries)}
    assert "paused" not in ada.get("/").text
    with database.transaction() as session:
        delivery_gate.drain(session, factories.QUEUE, by="olga@example.org", note="a note for operators")
    for job_id, address in addresses.items():
        answer = ada.get(address, headers=HX)
        assert answer.status_code == 200, "the row is as it was, but the page has something new to say"
        assert str(messages.PAUSED_JOB) in words(answer.text)
        for false_alarm in ("no worker", "longer than usual", "can’t be reached"):
            assert false_alarm not in answer.text
        assert "olga" not in answer.text and "a note for" not in answer.text
        assert ada.get(poll_address(answer.text), headers=HX).status_code == 204
        addresses[job_id] = poll_address(answer.text)
    assert str(messages.PAUSED_SITE) in words(ada.get("/").text)
    handed_in = ada.paste("A text that is handed in while the work is paused.")
    assert str(messages.PAUSED_JOB) in words(ada.get(handed_in.location).text)
    operators = words(olga.get("/ops").text)
    assert "The work is stopped, to drain" in operators and "No alarm." in operators
    assert "worker" not in ada.get("/readyz").json["missing"]
    with database.transaction() as session:
        delivery_gate.resume(session, factories.QUEUE, by="ops")
    for address in addresses.values():
        answer = ada.get(address, headers=HX)
        assert answer.status_code == 200 and "paused" not in words(answer.text)
        assert "no worker" in answer.text
    assert "worker" in ada.get("/readyz").json["missing"]


def test_messages_held_back_by_a_limit_are_not_called_an_outage(
    ada: Person, olga: Person, bench: WebHarness, database: Database
) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
        delivery_gate.resume(session, factories.QUEUE, by="ops", at_once=1)
    bench.claim(bench.job())
    waits = bench.job()
    with database.transaction() as session:
        session.execute(
            text(
                "UPDATE deliveries SET dispatched_at = NULL, not_before = now() - interval '20 s', due_at = not_before"
            )
        )
    assert "can’t be reached" not in ada.get(f"/jobs/{waits}").text
    now = words(olga.get("/ops").text)
    assert "At most 1 at once" in now and "No alarm." in now


def test_who_ran_out_of_time_in_a_pause_is_told_so_and_may_try_again(ada: Person, bench: WebHarness) -> None:
    page = words(ada.get(f"/jobs/{bench.failed(Category.DEADLINE, 'paused')}").text)
    assert "ran out while the operator of this site had paused the work" in page and "Try again" in page
