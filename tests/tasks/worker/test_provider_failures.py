"""Failures of the provider, and what a user sees of them: real worker, real SDK, real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.support import factories
from tests.support.site import SHORT, Opened


def test_used_up_quota_is_met_by_one_request_and_all_wait_until_it_is_resumed(site: Opened) -> None:
    with site({"mode": "quota"}, slots=1) as here:
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(3)]
        factories.wait_until(lambda: all(here.waits_for_lane(job) for job in jobs))
        assert len(here.fake.requests) == 1
        assert {here.view(job).state for job in jobs} == {State.QUEUED}
        assert "lane waybill-test:openai: stopped, because: quota" in here.ops("status")
        here.fake.script([{"mode": "ok"}])
        assert "waiting jobs let go: 3" in here.ops("resume")
        for job in jobs:
            assert here.wait_for(job, State.SUCCEEDED).attempt == 1, "no attempt was used up"


def test_a_key_that_is_refused_while_many_calls_are_in_flight_fails_none_of_them(site: Opened) -> None:
    with site({"mode": "auth"}, slots=8) as here:
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(8)]
        factories.wait_until(lambda: all(here.waits_for_lane(job) for job in jobs))
        assert {here.view(job).state for job in jobs} == {State.QUEUED}
        here.fake.script([{"mode": "ok"}])
        here.ops("resume")
        for job in jobs:
            assert here.wait_for(job, State.SUCCEEDED).attempt == 1


@pytest.mark.parametrize("headers", [{"retry_after": 2}, {"retry_after_ms": 2000}])
def test_a_providers_delay_is_met_within_a_second_and_never_undercut(site: Opened, headers: dict[str, Any]) -> None:
    with site({"mode": "rate", **headers}, {"mode": "ok"}) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        first, second = here.fake.requests
        assert 2.0 <= second.at - first.at <= 3.0
        assert here.outcomes(job) == ["retry", "succeeded"]


def test_a_throttled_lane_keeps_everybody_from_knocking_and_costs_the_others_no_attempt(site: Opened) -> None:
    with site({"mode": "rate", "retry_after": 3}, {"mode": "ok"}, slots=1) as here:
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(5)]
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED)
        first, second, *others = here.fake.requests
        assert second.at - first.at >= 3.0
        assert len(others) == 4
        assert sorted(here.outcomes(job) for job in jobs) == [["retry", "succeeded"], *[["succeeded"]] * 4]


def test_a_wait_longer_than_the_job_may_take_ends_it_now_and_says_so(site: Opened) -> None:
    with site({"mode": "rate", "retry_after": 900}) as here:
        view = here.wait_for(here.submit(), State.FAILED)
        assert (view.error_category, view.error_code) == ("deadline", "asked_to_wait_too_long")
        assert len(here.fake.requests) == 1


def test_a_delay_of_a_minute_and_a_half_is_waited_for_in_the_schedule(site: Opened) -> None:
    with site({"mode": "rate", "retry_after": 90}) as here:
        view = here.wait_for(here.submit(), State.RETRY_WAIT)
        assert view.next_attempt_at is not None
        assert (view.next_attempt_at - view.now).total_seconds() == pytest.approx(90, abs=2)
        assert len(here.fake.requests) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("stall", [{"mode": "hang"}, {"mode": "drip"}, {"mode": "drip_headers"}])
def test_a_stalled_provider_is_given_up_at_the_calls_budget_and_asked_once_more(
    site: Opened, stall: dict[str, Any]
) -> None:
    with site(stall, **SHORT) as here:
        job = here.submit()
        view = here.wait_for(job, State.FAILED, within=30)
        assert view.error_category == "uncertain"
        assert view.unknown_calls == 2
        assert here.calls(job) == ["unknown", "unknown"]
        assert len(here.fake.requests) == 2
        with here.database.transaction() as session:
            for call in job_views.calls_of(session, job):
                assert call.ended_at is not None
                assert 1.9 <= (call.ended_at - call.started_at).total_seconds() <= 3.5


def test_a_lost_answer_is_recorded_as_maybe_billed_and_asked_for_once_more(site: Opened) -> None:
    with site({"mode": "drop"}, {"mode": "ok"}) as here:
        job = here.submit()
        view = here.wait_for(job, State.SUCCEEDED)
        assert view.unknown_calls == 1
        assert here.calls(job) == ["unknown", "succeeded"]
        assert len(here.fake.requests) == 2


def test_an_answer_lost_again_and_again_stops_the_job(site: Opened) -> None:
    with site({"mode": "drop"}) as here:
        job = here.submit()
        assert here.wait_for(job, State.FAILED).error_category == "uncertain"
        assert len(here.fake.requests) == 2


NO_ANSWERS = [
    ("refusal", "content_policy", "refusal", 1),
    ("filter", "content_policy", "content_filter", 1),
    ("context", "invalid_request", "too_long", 1),
    ("nochoices", "uncertain", None, 2),
    ("nullmessage", "uncertain", None, 2),
    ("html200", "uncertain", None, 2),
    ("badjson", "uncertain", None, 2),
]


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_answer_that_is_none_ends_in_its_category_with_a_bounded_number_of_requests(site: Opened, api: str) -> None:
    with site({"mode": "ok"}, slots=8, OPENAI_API=api) as here:
        jobs = {}
        for mode, *_ in NO_ANSWERS:
            here.fake.script([{"mode": mode}], marker=f"marked-{mode}-")
            jobs[mode] = here.submit(f"A text that is marked-{mode}-here.".encode())
        for mode, category, code, requests in NO_ANSWERS:
            view = here.wait_for(jobs[mode], State.FAILED)
            assert view.error_category == category, mode
            assert code is None or view.error_code == code, mode
            seen = [request for request in here.fake.requests if f"marked-{mode}-".encode() in request.body]
            assert len(seen) == requests, mode
        assert here.results() == 0


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_refused_key_lets_the_job_wait_until_its_deadline_and_is_named_then(site: Opened, api: str) -> None:
    short = {**SHORT, "ATTEMPT_SECONDS": 3, "RESERVATION_SECONDS": 5, "JOB_DEADLINE_SECONDS": 9, "MAX_ATTEMPTS": 1}
    with site({"mode": "auth"}, OPENAI_API=api, **short) as here:
        job = here.submit(deadline_seconds=3)
        factories.wait_until(lambda: here.waits_for_lane(job))
        assert here.wait_for(job, State.FAILED).error_category == "auth"
        assert len(here.fake.requests) == 1


def test_what_is_refused_before_any_work_is_tried_on_until_no_attempt_fits_any_more(site: Opened) -> None:
    with site({"mode": "status", "code": 500}, **SHORT) as here:
        job = here.submit(deadline_seconds=12)
        view = here.wait_for(job, State.FAILED, within=30)
        assert view.error_category == "overloaded"
        assert len(here.fake.requests) >= 2
        assert view.finished_at is not None and view.finished_at < view.deadline_at


@pytest.mark.thorough
def test_a_service_that_is_away_for_longer_than_three_tries_costs_nothing(site: Opened) -> None:
    with site({"mode": "status", "code": 500}) as here:
        job = here.submit()
        here.fake.wait_for_requests(4, timeout=40)
        here.fake.script([{"mode": "ok"}])
        assert here.wait_for(job, State.SUCCEEDED, within=70).attempt == 1


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_good_answer_is_saved_with_what_the_provider_reported(site: Opened, api: str) -> None:
    with site({"mode": "ok", "text": "The pier is closed."}, OPENAI_API=api) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        with here.database.transaction() as session:
            result = job_views.result_of(session, job, here.account_id)
            call = job_views.calls_of(session, job)[0]
        assert result is not None
        assert result.text == "The pier is closed."
        assert call.outcome == "succeeded"
        assert call.input_tokens is not None


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_an_answer_cut_off_by_length_is_saved_and_marked_and_never_passes_for_a_whole_one(
    site: Opened, api: str
) -> None:
    with site({"mode": "length", "text": "The committee decided that the pier"}, OPENAI_API=api) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        with here.database.transaction() as session:
            result = job_views.result_of(session, job, here.account_id)
            call = job_views.calls_of(session, job)[0]
            saved = job_views.events_of(session, job)[-1]
        assert result is not None
        assert result.facts["cut_off"] is True
        assert (call.outcome, call.error_code) == ("succeeded", "output_limit")
        assert saved.facts["cut_off"] is True


def test_a_limit_reached_before_the_first_word_is_no_summary(site: Opened) -> None:
    with site({"mode": "length_empty"}) as here:
        view = here.wait_for(here.submit(), State.FAILED)
        assert (view.error_category, view.error_code) == ("invalid_request", "output_limit")


def test_half_an_emoji_and_a_nul_in_a_document_do_not_keep_it_from_being_summarised(site: Opened) -> None:
    content = (factories.ROOT / "tests/support/files/A08_pdf_lone_surrogate_and_nul.pdf").read_bytes()
    with site({"mode": "ok", "text": "An answer with \\u0000 and half an emoji \\ud83d."}) as here:
        job = here.submit(content)
        here.wait_for(job, State.SUCCEEDED)
        assert here.outcomes(job) == ["succeeded"]
        assert b"\\ud83d" not in here.fake.requests[0].body


def test_a_cancel_that_meets_the_answer_has_one_winner_that_never_changes(site: Opened) -> None:
    with site({"mode": "gate", "name": "0"}) as here:
        results = 0
        for round_ in range(5):
            here.fake.script([{"mode": "gate", "name": str(round_)}])
            jobs = [here.submit(f"Report {n} of round {round_}.".encode()) for n in range(4)]
            here.fake.wait_for_requests(4 * (round_ + 1))
            works: list[Any] = [lambda job=job: here.cancel(job) for job in jobs]
            factories.all_at_once([lambda gate=str(round_): here.fake.release(gate), *works])
            ended = {job: here.wait_for(job, State.SUCCEEDED, State.CANCELLED, within=8).state for job in jobs}
            results += sum(state is State.SUCCEEDED for state in ended.values())
            assert here.results() == results
            for job, state in ended.items():
                assert here.cancel(job) is None
                assert here.view(job).state is state
