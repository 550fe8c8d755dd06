"""Tests of claims. I3: only the present claim can write. I5: cancel or success, never both. Each with its control."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import calls
from tasks.ledger.errors import CancelRequested, Category, ClaimLost
from tasks.ledger.jobs import checkpoints, guarded_update, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import RELEASED_FIELDS, Claim
from tasks.ledger.reports import job_views
from tasks.ledger.states import Event, Outcome, State
from tests.support import factories


@pytest.fixture
def stale_and_current(database: Database, account_id: uuid.UUID) -> tuple[Claim, Claim]:
    """Return two claims of one job: that of a worker whose lease expired, and that of the worker that holds it now."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        stale = factories.claim(session, job_id, worker="frozen")
        factories.let_the_lease_run_out(session, job_id)
        transitions.expire(session, job_id, max_interruptions=5)
        return stale, factories.claim(session, job_id, worker="fresh")


def test_a_worker_whose_claim_changed_hands_cannot_write_anything(
    database: Database, stale_and_current: tuple[Claim, Claim]
) -> None:
    stale, current = stale_and_current
    step = SavedStep("late text", {})
    for write in (
        lambda session: transitions.progress(session, stale, step="read", done=0, total=0),
        lambda session: checkpoints.save(session, stale, "read", step, next_step="x", done=0, total=0),
        lambda session: transitions.succeed(session, stale, text="late text", facts={}),
        lambda session: transitions.retry_later(session, stale, category=Category.OVERLOADED, delay_seconds=1),
        lambda session: transitions.fail(session, stale, category=Category.QUOTA),
        lambda session: transitions.release(session, stale, reason="late", interrupted=False),
    ):
        with pytest.raises(ClaimLost), database.transaction() as session:
            write(session)
    with database.transaction() as session:
        assert calls.open_call(session, stale.job_id, stale.generation, factories.CALL) is None
        assert factories.state_of(session, stale.job_id) is State.RUNNING
        assert factories.count(session, "results") == factories.count(session, "checkpoints") == 0
        assert transitions.succeed(session, current, text="the text", facts={}) is State.SUCCEEDED


def test_control_with_the_state_as_its_only_guard_the_late_write_lands(
    database: Database, stale_and_current: tuple[Claim, Claim]
) -> None:
    stale, _ = stale_and_current
    with database.transaction() as session:
        moved = guarded_update.change_state(session, Event.SUCCEED, stale.job_id, claim=None, **RELEASED_FIELDS)
        assert moved is not None
        assert moved.state == State.SUCCEEDED


def test_the_lost_attempt_says_so_in_the_history(database: Database, stale_and_current: tuple[Claim, Claim]) -> None:
    stale, current = stale_and_current
    with database.transaction() as session:
        outcomes = {one.generation: one.outcome for one in job_views.attempts_of(session, stale.job_id)}
    assert outcomes == {stale.generation: Outcome.LOST, current.generation: None}


def test_a_call_left_open_by_a_lost_worker_is_recorded_as_unknown(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        calls.open_call(session, job_id, claim.generation, factories.CALL)
        factories.let_the_lease_run_out(session, job_id)
        transitions.expire(session, job_id, max_interruptions=5)
        assert [call.outcome for call in job_views.calls_of(session, job_id)] == ["unknown"]
        assert calls.lost_calls(session, job_id) == 1


def test_a_success_that_comes_after_the_cancel_is_not_saved(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
    with database.transaction() as session:
        assert transitions.cancel(session, job_id, account_id) is State.CANCEL_REQUESTED
    with database.transaction() as session:
        assert transitions.succeed(session, claim, text="too late", facts={}) is State.CANCELLED
    with database.transaction() as session:
        assert factories.count(session, "results") == 0
        assert transitions.cancel(session, job_id, account_id) is None


def test_saving_a_step_after_the_cancel_raises_cancel_asked_and_not_claim_lost(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        transitions.cancel(session, job_id, account_id)
    with pytest.raises(CancelRequested), database.transaction() as session:
        checkpoints.save(session, claim, "read", SavedStep("late", {}), next_step="x", done=0, total=0)
    with database.transaction() as session:
        assert transitions.release(session, claim, reason="cancel", interrupted=False) is State.CANCELLED
        assert factories.count(session, "checkpoints") == 0


@pytest.mark.race
@pytest.mark.parametrize("round_", range(8))
def test_cancel_and_success_at_the_same_moment_have_one_winner(
    database: Database, account_id: uuid.UUID, round_: int
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)

    def cancel() -> object:
        with database.transaction() as session:
            return transitions.cancel(session, job_id, account_id)

    def succeed() -> object:
        with database.transaction() as session:
            return transitions.succeed(session, claim, text="a summary", facts={})

    works = [cancel, succeed] if round_ % 2 else [succeed, cancel]
    answers = set(factories.all_at_once(works))
    with database.transaction() as session:
        state, results = factories.state_of(session, job_id), factories.count(session, "results")
    assert (state, results, answers) in (
        (State.SUCCEEDED, 1, {None, State.SUCCEEDED}),
        (State.CANCELLED, 0, {State.CANCEL_REQUESTED, State.CANCELLED}),
    )


@pytest.mark.race
def test_eight_workers_race_for_one_job_and_one_wins(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id

    def take() -> object:
        with database.transaction() as session:
            return transitions.claim(
                session, job_id, worker="w", lane="local", lease_seconds=15, reservation_seconds=120
            )

    answers = factories.all_at_once([take] * 8)
    assert sum(isinstance(answer, Claim) for answer in answers) == 1
    with database.transaction() as session:
        assert factories.count(session, "attempts") == 1


@pytest.mark.race
def test_control_checking_first_and_claiming_then_lets_several_win(database: Database, account_id: uuid.UUID) -> None:
    from sqlalchemy import text

    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    import threading

    all_looked = threading.Barrier(4)  # as many as the pool has connections

    def look_then_take() -> object:
        with database.transaction() as session:
            free = factories.state_of(session, job_id) is State.QUEUED
            all_looked.wait(10)
            if not free:
                return None
            return session.execute(
                text("UPDATE jobs SET generation = generation + 1 WHERE id = :id RETURNING generation"), {"id": job_id}
            ).scalar_one()

    assert sorted(filter(None, factories.all_at_once([look_then_take] * 4))) == [1, 2, 3, 4]


@pytest.fixture
def put_back(database: Database, account_id: uuid.UUID) -> Claim:
    """Return the claim of a worker that froze. Its job was taken back, failed at its deadline, and was put back."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        frozen = factories.claim(session, job_id, worker="frozen")
        factories.let_the_lease_run_out(session, job_id)
        transitions.expire(session, job_id, max_interruptions=5)
        transitions.fail_waiting(session, job_id, category=Category.DEADLINE)
        assert transitions.replay(session, job_id, deadline_seconds=60, more_attempts=3, cause="owner") is State.QUEUED
    return frozen


def test_a_worker_that_froze_cannot_end_a_job_that_was_put_back(database: Database, put_back: Claim) -> None:
    with pytest.raises(ClaimLost), database.transaction() as session:
        transitions.fail(session, put_back, category=Category.QUOTA)
    with database.transaction() as session:
        assert factories.state_of(session, put_back.job_id) is State.QUEUED


@pytest.mark.parametrize("same_generation", [False, True], ids=["any state", "any state, and the same generation"])
def test_control_either_guard_alone_is_enough_and_without_both_it_could(
    database: Database, put_back: Claim, monkeypatch: pytest.MonkeyPatch, same_generation: bool
) -> None:
    monkeypatch.setattr(guarded_update, "HELD", frozenset(State))
    with database.transaction() as session:
        if same_generation:
            session.execute(text("UPDATE jobs SET generation = :old"), {"old": put_back.generation})
    ended = False
    with contextlib.suppress(ClaimLost), database.transaction() as session:
        ended = transitions.fail(session, put_back, category=Category.QUOTA) is State.FAILED
    assert ended is same_generation


def test_a_failure_that_is_recorded_again_does_not_undo_the_owners_decision(
    database: Database, account_id: uuid.UUID
) -> None:
    """Check the case that the answer to the commit was lost, and the owner put the job back meanwhile."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        transitions.fail(session, claim, category=Category.INTERNAL)
        transitions.replay(session, job_id, deadline_seconds=60, more_attempts=3, cause="owner")
    with pytest.raises(ClaimLost), database.transaction() as session:
        transitions.fail(session, claim, category=Category.INTERNAL)
