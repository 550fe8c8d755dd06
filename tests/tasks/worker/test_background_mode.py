"""A background response is polled, and not requested again."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import text

from tasks.ledger.calls import calls, lanes
from tasks.ledger.jobs import transitions
from tasks.ledger.reports import job_views
from tasks.ledger.states import CallOutcome, State
from tests.support import factories
from tests.support.worker_bench import OpenBench, WorkerHarness

LONG = "\n\n".join(f"Paragraph <{n}> {'says that the pier is closed. ' * 6}" for n in range(6)).encode()


def test_a_job_waits_at_the_provider_without_a_slot_and_without_using_up_an_attempt(at: OpenBench) -> None:
    here = at({"mode": "ok", "polls": 2})
    job = here.handed_over()
    (call,) = here.calls(job)
    assert (call.outcome, call.response_id, call.background) == ("open", "resp_fake1", True)
    assert here.generations[0].metadata == {"job": str(job), "generation": "1", "call": str(call.id)}
    with here.database.transaction() as session:
        wait = session.execute(text("SELECT extract(epoch FROM not_before - now()) FROM deliveries")).scalar_one()
        assert job_views.orphans(session, grace_seconds=0) == 0
    assert 1 < wait <= 2
    assert [here.attempt(job) for _ in range(3)] == [State.QUEUED, State.QUEUED, State.SUCCEEDED]
    assert (len(here.generations), here.outcomes(job)) == (1, ["succeeded"])
    with here.database.transaction() as session:
        made = [(attempt.number, attempt.outcome) for attempt in job_views.attempts_of(session, job)]
    assert made == [(1, "released")] * 3 + [(1, "succeeded")]
    assert here.view(job).attempt == 1
    assert here.calls(job)[0].input_tokens == 11


def test_negative_control_without_the_saved_name_it_is_made_again(
    at: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = at({"mode": "ok", "polls": 9})
    job = here.handed_over()
    here.attempt(job)
    assert len(here.generations) == 1
    monkeypatch.setattr(calls, "open_responses", lambda session, job_id: {})
    here.attempt(job)
    assert len(here.generations) == 2


def test_a_last_look_comes_shortly_before_the_deadline(at: OpenBench) -> None:
    here = at({"mode": "never"})
    job = here.handed_over()
    with here.database.transaction() as session:
        session.execute(text("UPDATE provider_calls SET started_at = now() - interval '200 s'"))
        session.execute(text("UPDATE jobs SET deadline_at = now() + interval '25 s'"))
    here.attempt(job)
    with here.database.transaction() as session:
        to_the_end = session.execute(
            text("SELECT extract(epoch FROM deadline_at - not_before) FROM jobs JOIN deliveries ON job_id = jobs.id")
        ).scalar_one()
    assert to_the_end == pytest.approx(5, abs=0.1)


def test_a_server_that_answers_at_once_needs_no_second_attempt(at: OpenBench) -> None:
    here = at({"mode": "ok", "sync": True})
    job = here.submit()
    assert here.attempt(job) is State.SUCCEEDED
    assert here.outcomes(job) == ["succeeded"]


@pytest.mark.parametrize("fault", ["drop", "html200", "badjson", "status"])
def test_a_look_that_fails_is_repeated_and_the_request_is_not(at: OpenBench, fault: str) -> None:
    here = at({"mode": "ok", "looks": [{"mode": fault, "code": 502}]})
    job = here.handed_over()
    assert here.attempt(job) is State.QUEUED
    assert here.outcomes(job) == ["open"]
    assert here.attempt(job) is State.SUCCEEDED
    assert len(here.generations) == 1


@pytest.mark.parametrize(("fault", "state"), [("rate", "cooling"), ("overloaded", "cooling"), ("auth", "stopped")])
def test_a_refused_poll_closes_the_lane_for_all_and_the_job_waits_for_the_lane(
    at: OpenBench, fault: str, state: str
) -> None:
    here = at({"mode": "ok", "looks": [{"mode": fault}]})
    job = here.handed_over()
    assert here.attempt(job) is State.QUEUED
    with here.database.transaction() as session:
        closed = lanes.check(session, here.tools.settings.lane)
        assert closed is not None
        assert closed.state == state
        lanes.resume(session, here.tools.settings.lane, by="test", spread_seconds=0)
    assert here.attempt(job) is State.SUCCEEDED
    assert len(here.generations) == 1


def test_one_that_is_gone_is_unknown_and_repeated_once_at_most(at: OpenBench) -> None:
    here = at({"mode": "gone"}, {"mode": "ok"})
    job = here.handed_over()
    assert here.attempt(job) is State.RETRY_WAIT
    (call,) = here.calls(job)
    assert (call.outcome, call.error_category, call.response_id) == ("unknown", "uncertain", "resp_fake1")
    here.fake.script([{"mode": "gone"}])
    assert [here.attempt(job) for _ in range(2)] == [State.QUEUED, State.FAILED]
    assert (here.outcomes(job), len(here.generations)) == (["unknown"] * 2, 2)
    assert (here.view(job).error_category, here.view(job).unknown_calls) == ("uncertain", 2)


@pytest.mark.parametrize(
    ("step", "state", "category"),
    [
        ({"mode": "failed", "err": "server_error"}, State.RETRY_WAIT, "overloaded"),
        ({"mode": "failed", "err": "invalid_prompt"}, State.FAILED, "content_policy"),
        ({"mode": "length_empty"}, State.FAILED, "invalid_request"),
    ],
)
def test_one_that_failed_ends_the_attempt_as_ever(
    at: OpenBench, step: dict[str, Any], state: State, category: str
) -> None:
    here = at(step)
    job = here.handed_over()
    assert here.attempt(job) is state
    (call,) = here.calls(job)
    assert (call.outcome, call.error_category) == ("failed", category)


def test_what_crashes_lost_is_repeated_once_at_most_until_somebody_says_again(at: OpenBench) -> None:
    here = at({"mode": "ok"})
    job = here.submit()
    for _ in range(2):
        lose_a_call(here, job)
    assert here.attempt(job) is State.FAILED
    assert (here.view(job).error_category, here.generations) == ("uncertain", [])
    with here.database.transaction() as session:
        transitions.replay(session, job, deadline_seconds=60, more_attempts=1, cause="again")
    assert [here.attempt(job) for _ in range(2)] == [State.QUEUED, State.SUCCEEDED]


def lose_a_call(here: WorkerHarness, job: uuid.UUID) -> None:
    """Leave the rows of a crash after the provider accepted a request and before we noted it, and let the lease end."""
    call = calls.NewCall("summarise", here.tools.settings.lane, "openai", "m", 16, 60, background=True)
    with here.database.transaction() as session:
        factories.let_the_wait_be_over(session, job)
    with here.database.transaction() as session:
        claim = factories.claim(session, job)
        assert isinstance(calls.open_call(session, job, claim.generation, call), uuid.UUID)
        factories.let_the_lease_run_out(session, job)
    with here.database.transaction() as session:
        assert transitions.expire(session, job, max_interruptions=5) is State.RETRY_WAIT
        session.execute(text("UPDATE jobs SET suspicions = 0"))  # as if the document had been read before


def test_a_name_that_comes_late_opens_its_call_again(at: OpenBench) -> None:
    here = at({"mode": "ok"})
    job = here.submit()
    lose_a_call(here, job)
    (lost,) = here.calls(job)
    assert lost.outcome == CallOutcome.UNKNOWN
    with here.database.transaction() as session:
        assert calls.note_response(session, lost.id, "resp_late", lost.lane)
        assert calls.open_responses(session, job)["summarise"].response_id == "resp_late"


def test_an_answer_that_was_cut_off_is_asked_for_again_once_over_all_attempts(at: OpenBench) -> None:
    here = at({"mode": "length", "text": "The committee decided that"})
    job = here.handed_over()
    assert here.attempt(job) is State.QUEUED
    assert here.attempt(job) is State.SUCCEEDED
    assert len(here.generations) == 2
    assert b"Write at most half as much" in here.generations[1].request.body
    with here.database.transaction() as session:
        result = job_views.result_of(session, job, None)
    assert result is not None
    assert result.facts["cut_off"] is True


def test_the_parts_of_a_long_document_wait_together(at: OpenBench) -> None:
    here = at({"mode": "gate"}, call_chars=200, parts_at_once=6)
    job = here.handed_over(content=LONG)
    assert len(here.generations) == 6
    here.fake.release()
    while here.attempt(job) is not State.SUCCEEDED:
        assert here.state(job) is State.QUEUED
    steps = [call.step for call in here.calls(job)]
    assert len(steps) == len(set(steps)) == len(here.generations)
    assert set(here.outcomes(job)) == {"succeeded"}


def test_parts_for_which_the_attempt_has_no_time_left_come_in_the_next(at: OpenBench) -> None:
    here = at({"mode": "ok"}, call_chars=200, parts_at_once=1, provider_call_seconds=100)  # longer than the attempt
    job = here.handed_over(content=LONG)
    assert len(here.generations) == 1
    for _ in range(20):
        if here.attempt(job) is State.SUCCEEDED:
            break
    assert here.state(job) is State.SUCCEEDED
    assert len(here.generations) == len(here.calls(job)) > 6
    assert here.view(job).attempt == 1


def test_one_long_document_leaves_places_to_others(at: OpenBench) -> None:
    here = at({"mode": "ok", "polls": 1}, call_chars=200, parts_at_once=2, provider_concurrency=3)
    job = here.handed_over(content=LONG)
    assert here.outcomes(job) == ["open", "open"]
    other = here.handed_over()  # finds the third slot free
    assert len(here.generations) == 3
    steps: list[str] = []
    while here.attempt(job) is not State.SUCCEEDED:
        open_now = [call.step for call in here.calls(job) if call.outcome == CallOutcome.OPEN]
        assert len(open_now) <= 2
        steps += [step for step in open_now if step not in steps]
    assert set(steps[:6]) == {f"part {number} of 6" for number in range(1, 7)}
    assert len(here.generations) == len(here.calls(job)) + len(here.calls(other))


def test_parts_that_find_no_place_come_when_others_are_done(at: OpenBench) -> None:
    here = at({"mode": "ok"}, call_chars=200, parts_at_once=2, provider_concurrency=2)
    job = here.handed_over(content=LONG)
    assert len(here.generations) == 2
    while here.attempt(job) is not State.SUCCEEDED:
        assert here.outcomes(job).count("open") <= 2
    assert len(here.generations) == len(here.calls(job))
