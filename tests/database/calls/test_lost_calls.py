"""Tests that a call without an answer is repeated once at most, on every path, and that no commit counts twice."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text

from tasks.call_reports import mark_lane, report_of_error
from tasks.database import Database
from tasks.ledger.calls import calls, lanes
from tasks.ledger.errors import Category, JobError
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import replays
from tasks.ledger.replays.selection import Choice
from tasks.ledger.states import READ_STEP, CallOutcome, LaneState
from tasks.ledger.terms import ReplayTerms
from tasks.provider import ProviderError
from tests.support import factories

LANE = factories.CALL.lane


@pytest.fixture
def job_id(database: Database, account_id: uuid.UUID) -> uuid.UUID:
    """Create a job whose document has been read."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        checkpoints.save(session, claim, READ_STEP, SavedStep("text", {}), next_step="x", done=0, total=1)
        transitions.release(session, claim, reason="continue", interrupted=False)
        return job_id


def claimed(database: Database, job_id: uuid.UUID) -> Claim:
    with database.transaction() as session:
        factories.let_the_wait_be_over(session, job_id)
        return factories.claim(session, job_id)


def ask(database: Database, claim: Claim) -> uuid.UUID:
    with database.transaction() as session:
        call_id = calls.open_call(session, claim.job_id, claim.generation, factories.CALL)
    assert isinstance(call_id, uuid.UUID)
    return call_id


def crash(database: Database, job_id: uuid.UUID) -> None:
    """Lose a call with its worker."""
    ask(database, claimed(database, job_id))
    with database.transaction() as session:
        factories.let_the_lease_run_out(session, job_id)
        transitions.expire(session, job_id, max_interruptions=9)


def hand_back(database: Database, job_id: uuid.UUID) -> None:
    """Lose a call by a shutdown in the middle of it."""
    claim = claimed(database, job_id)
    ask(database, claim)
    with database.transaction() as session:
        transitions.release(session, claim, reason="shutdown", interrupted=True)


def fail_uncertain(database: Database, job_id: uuid.UUID) -> None:
    """Lose a call by a connection that broke, after which the attempt is retried."""
    claim = claimed(database, job_id)
    error = ProviderError(Category.UNCERTAIN, "connection_lost", sent=True)
    call_id = ask(database, claim)
    with database.transaction() as session:
        calls.close_call(session, call_id, report_of_error(error))
        transitions.retry_later(session, claim, category=error.category, delay_seconds=0)


def refused(database: Database, claim: Claim) -> None:
    with pytest.raises(JobError) as error:
        ask(database, claim)
    assert (error.value.category, error.value.code) == (Category.UNCERTAIN, "lost_again")


@pytest.mark.parametrize("second", [crash, hand_back, fail_uncertain], ids=lambda path: path.__name__)
@pytest.mark.parametrize("first", [crash, hand_back, fail_uncertain], ids=lambda path: path.__name__)
def test_a_third_request_is_refused_however_the_first_two_were_lost(
    database: Database, job_id: uuid.UUID, first: object, second: object
) -> None:
    first(database, job_id)  # type: ignore[operator]
    ask(database, claimed(database, job_id))
    with database.transaction() as session:  # the repeated one is not lost yet
        session.execute(
            text("UPDATE provider_calls SET outcome = 'succeeded', ended_at = now() WHERE outcome = 'open'")
        )
        factories.let_the_lease_run_out(session, job_id)
        transitions.expire(session, job_id, max_interruptions=9)
    second(database, job_id)  # type: ignore[operator]
    refused(database, claimed(database, job_id))


def test_control_without_the_bound_it_is_made(
    database: Database, job_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(database, job_id)
    crash(database, job_id)
    monkeypatch.setattr(calls, "LOST_CALLS_ALLOWED", 9)
    ask(database, claimed(database, job_id))


def test_each_step_has_its_own_bound(database: Database, job_id: uuid.UUID) -> None:
    crash(database, job_id)
    claim = claimed(database, job_id)
    with database.transaction() as session:
        session.execute(text("UPDATE provider_calls SET step = 'part 1 of 2'"))
    ask(database, claim)
    with database.transaction() as session:
        assert calls.lost_calls(session, job_id) == 1


def fail(database: Database, job_id: uuid.UUID) -> None:
    claim = claimed(database, job_id)
    with database.transaction() as session:
        transitions.fail(session, claim, category=Category.UNCERTAIN, code="lost_again")


@pytest.mark.parametrize("by_rule", [True, False], ids=["by its cause", "by name"])
def test_a_replay_by_rule_allows_no_further_request_and_one_by_name_does(
    database: Database, job_id: uuid.UUID, by_rule: bool
) -> None:
    crash(database, job_id)
    crash(database, job_id)
    fail(database, job_id)
    choice = Choice(category="uncertain") if by_rule else Choice(jobs=[job_id])
    with database.transaction() as session:
        replays.begin(
            session, factories.QUEUE, choice, cause=Cause.OTHER, note="n", by="olga", per_minute=60,
            terms=ReplayTerms(600, 3, LANE),
        )  # fmt: skip
    claim = claimed(database, job_id)
    if by_rule:
        refused(database, claim)
    else:
        ask(database, claim)


def test_a_repeated_commit_opens_one_call(database: Database, job_id: uuid.UUID) -> None:
    """Check the case that the answer to the commit was lost, so that the work is done again."""
    claim, call_id = claimed(database, job_id), uuid.uuid4()
    for _ in range(2):
        with database.transaction() as session:
            made = calls.open_call(session, job_id, claim.generation, factories.CALL, call_id)
        assert made == call_id
    with database.transaction() as session:
        assert factories.count(session, "provider_calls") == 1
    ask(database, claim)  # the control: another id is another call
    with database.transaction() as session:
        assert factories.count(session, "provider_calls") == 2


def test_a_repeated_commit_cools_the_lane_once(database: Database, job_id: uuid.UUID) -> None:
    call_id = ask(database, claimed(database, job_id))
    error = ProviderError(Category.OVERLOADED, "overloaded", sent=True, http_status=503)
    closed = []
    for _ in range(2):
        with database.transaction() as session:
            closed.append(calls.close_call(session, call_id, report_of_error(error)))
            if closed[-1]:
                mark_lane(session, LANE, error, call_id)
    assert closed == [True, False]
    with database.transaction() as session:
        assert session.execute(text("SELECT strikes FROM lanes")).scalar_one() == 1


def test_a_claim_whose_commit_answer_was_lost_is_given_again(database: Database, job_id: uuid.UUID) -> None:
    claim = claimed(database, job_id)

    def ask_again(worker: str, *, repeated: bool) -> Claim | Refused:
        with database.transaction() as session:
            return transitions.claim(
                session,
                job_id,
                worker=worker,
                lane="local",
                lease_seconds=9,
                reservation_seconds=9,
                repeated=repeated,
            )

    again = ask_again("somebody", repeated=True)
    assert isinstance(again, Claim)
    assert (again.generation, again.attempt) == (claim.generation, claim.attempt)
    assert ask_again("another", repeated=True) == Refused("held")
    assert ask_again("somebody", repeated=False) == Refused("held"), "a second message"


@pytest.mark.parametrize("began", ["before", "after"])
def test_only_a_call_that_began_after_the_closing_opens_the_lane(
    database: Database, job_id: uuid.UUID, account_id: uuid.UUID, began: str
) -> None:
    claim = claimed(database, job_id)
    early = ask(database, claim)
    with database.transaction() as session:
        lanes.cool(session, LANE, seconds=40, category=Category.RATE_LIMITED, code=None)
        if began == "after":
            statement = "UPDATE provider_calls SET started_at = clock_timestamp() WHERE id = :id"
            session.execute(text(statement), {"id": early})
    with database.transaction() as session:
        lanes.record_success(session, LANE, early, spread_seconds=0)
        closed = lanes.check(session, LANE)
    assert (closed is None) is (began == "after")
    if closed is not None:
        assert closed.state is LaneState.COOLING and closed.seconds is not None and closed.seconds > 30
    with database.transaction() as session:
        assert calls.close_call(session, early, calls.CallReport(CallOutcome.SUCCEEDED))
