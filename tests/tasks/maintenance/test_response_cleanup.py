"""Responses that no job needs any more are cancelled at the provider: once, and however the job ended."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from tasks.ledger.errors import Category
from tasks.ledger.jobs import deletion, transitions
from tasks.ledger.states import State
from tests.support.worker_bench import OpenBench


def test_what_finished_jobs_left_open_takes_no_place_for_ever(at: OpenBench) -> None:
    here = at({"mode": "never"}, provider_concurrency=1)
    first = here.handed_over()
    second = here.submit(b"another text")
    assert here.attempt(second) is State.QUEUED
    assert len(here.generations) == 1
    here.cancel(first)
    assert here.withdrawals.step() == 1
    assert here.attempt(second) is State.QUEUED
    assert len(here.generations) == 2


def test_a_response_that_cannot_be_cancelled_is_given_up_after_a_time(at: OpenBench) -> None:
    here = at({"mode": "never", "on_cancel": "ignored"})
    job = here.handed_over()
    here.cancel(job)
    assert (here.withdrawals.step(), here.outcomes(job)) == (0, ["open"])
    with here.database.transaction() as session:
        session.execute(text("UPDATE jobs SET finished_at = finished_at - interval '20 minutes'"))
    here.withdrawals.step()
    assert here.outcomes(job) == ["unknown"]
    assert here.calls(job)[0].error_code == "not_withdrawn"


@pytest.mark.parametrize("ending", ["cancelled", "failed", "past its deadline"])
def test_whatever_ends_the_job_its_response_is_cancelled_once(at: OpenBench, ending: str) -> None:
    here = at({"mode": "never"})
    job = here.handed_over()
    assert here.withdrawals.step() == 0, "somebody waits for it"
    with here.database.transaction() as session:
        if ending == "cancelled":
            transitions.cancel(session, job, here.account_id)
        else:
            category = Category.CRASHED if ending == "failed" else Category.DEADLINE
            assert transitions.fail_waiting(session, job, category=category) is State.FAILED
    assert [here.withdrawals.step() for _ in range(2)] == [1, 0]
    assert (here.outcomes(job), here.generations[0].cancels) == (["cancelled"], 1)
    assert here.generations[0].status == "cancelled"


def test_a_success_before_the_cancel_is_recorded_for_the_call_and_is_no_result(at: OpenBench) -> None:
    here = at({"mode": "ok", "on_cancel": "faster"})
    job = here.handed_over()
    assert here.cancel(job) is State.CANCELLED
    assert here.withdrawals.step() == 1
    (call,) = here.calls(job)
    assert (call.outcome, call.input_tokens, call.output_tokens) == ("succeeded", 11, 7)
    assert (here.count("results"), here.state(job)) == (0, State.CANCELLED)


def test_a_success_faster_than_the_cancel_is_saved(at: OpenBench) -> None:
    here = at({"mode": "ok"})
    job = here.handed_over()
    assert here.attempt(job) is State.SUCCEEDED
    assert here.cancel(job) is None
    assert (here.withdrawals.step(), here.count("results"), here.generations[0].cancels) == (0, 1, 0)


def test_a_failed_cancel_is_repeated_at_the_next_sweep(at: OpenBench) -> None:
    here = at({"mode": "never", "on_cancel": {"mode": "overloaded"}})
    job = here.handed_over()
    here.cancel(job)
    assert (here.withdrawals.step(), here.outcomes(job)) == (0, ["open"])
    here.generations[0].step.pop("on_cancel")
    assert (here.withdrawals.step(), here.outcomes(job)) == (1, ["cancelled"])


def test_a_response_that_may_not_be_kept_is_deleted_once_it_is_saved_here(at: OpenBench) -> None:
    here = at({"mode": "ok"}, openai_store_after=False)
    job = here.handed_over()
    assert here.withdrawals.step() == 0
    assert here.attempt(job) is State.SUCCEEDED
    assert [here.withdrawals.step() for _ in range(2)] == [1, 0]
    assert here.generations[0].deletes == 1
    assert here.calls(job)[0].response_deleted_at is not None


def test_a_cancelled_response_that_may_not_be_kept_is_deleted_too(at: OpenBench) -> None:
    here = at({"mode": "ok", "on_cancel": "faster"}, openai_store_after=False)
    job = here.handed_over()
    here.cancel(job)
    assert [here.withdrawals.step() for _ in range(2)] == [2, 0]
    assert here.generations[0].deletes == 1


def test_a_site_that_lets_the_provider_keep_responses_deletes_none(at: OpenBench) -> None:
    here = at({"mode": "ok"})
    job = here.handed_over()
    here.attempt(job)
    here.withdrawals.step()
    assert here.generations[0].deletes == 0


@pytest.mark.parametrize("finished", [True, False])
def test_a_document_that_is_deleted_here_is_deleted_at_the_provider(at: OpenBench, finished: bool) -> None:
    here = at({"mode": "ok"})
    job = here.handed_over()
    if finished:
        here.attempt(job)
    with here.database.transaction() as session:
        assert deletion.delete_document(session, here.view(job).document_id, here.account_id) == 1
    assert (here.count("provider_calls"), here.count("left_responses")) == (0, 1)
    assert here.withdrawals.step() == 1
    assert (here.count("left_responses"), here.generations[0].deletes) == (0, 1)


def test_a_document_deleted_while_its_request_is_handed_over_leaves_nothing_at_the_provider(at: OpenBench) -> None:
    here = at({"mode": "status", "code": 200, "delay": 0.5, "body": {"id": "resp_x", "status": "queued"}})
    job = here.submit()
    document_id = here.view(job).document_id
    ended: list[State | None] = []
    working = threading.Thread(target=lambda: ended.append(here.attempt(job)))
    working.start()
    here.fake.wait_for_requests(1)
    with here.database.transaction() as session:
        deletion.delete_document(session, document_id, here.account_id)
    working.join(20)
    assert ended == [None]
    assert (here.count("left_responses"), here.count("jobs")) == (1, 0)
    here.withdrawals.step()  # the fake does not know this response: it is gone
    assert here.count("left_responses") == 0
