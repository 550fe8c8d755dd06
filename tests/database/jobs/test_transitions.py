"""Tests of the events of a job: each does what the table says, is recorded, and is refused in all other states."""

from __future__ import annotations

import itertools
import uuid

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.errors import CancelRequested, Category, ClaimLost
from tasks.ledger.jobs import stale, transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models import Attempt, Delivery
from tasks.ledger.reports import inspection, job_views
from tasks.ledger.states import TRANSITIONS, Event, Outcome, State
from tests.support import factories


def bring_to(session: Session, account_id: uuid.UUID, state: State) -> tuple[uuid.UUID, Claim]:
    """Bring a job into this state by the real events, and return its id and its newest claim.

    If it was never claimed, the claim is made up and not valid.
    """
    job_id = factories.submit(session, account_id).job_id
    if state is State.QUEUED:
        return job_id, Claim(job_id, 0, 1, 3)
    claim = factories.claim(session, job_id)
    if state is State.RETRY_WAIT:
        transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=60)
    if state is State.SUCCEEDED:
        transitions.succeed(session, claim, text="A summary.", facts={})
    if state is State.FAILED:
        transitions.fail(session, claim, category=Category.QUOTA)
    if state in (State.CANCEL_REQUESTED, State.CANCELLED):
        transitions.cancel(session, job_id, account_id)
    if state is State.CANCELLED:
        transitions.release(session, claim, reason="cancel", interrupted=False)
    assert factories.state_of(session, job_id) is state
    return job_id, claim


def happen(session: Session, event: Event, job_id: uuid.UUID, claim: Claim, account_id: uuid.UUID) -> object:
    """Call the function of the event. None, Refused or ClaimLost mean that the event was not allowed."""
    match event:
        case Event.CLAIM:
            factories.let_the_wait_be_over(session, job_id)
            return transitions.claim(
                session, job_id, worker="another", lane="local", lease_seconds=15, reservation_seconds=120
            )
        case Event.CHECKPOINT:
            return transitions.progress(session, claim, step="read", done=0, total=0) or True
        case Event.SUCCEED:
            return transitions.succeed(session, claim, text="A summary.", facts={})
        case Event.RETRY_LATER:
            return transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=5)
        case Event.FAIL:
            held = factories.state_of(session, job_id) in (State.RUNNING, State.CANCEL_REQUESTED)
            if held:
                return transitions.fail(session, claim, category=Category.QUOTA)
            return transitions.fail_waiting(session, job_id, category=Category.DEADLINE)
        case Event.RELEASE:
            return transitions.release(session, claim, reason="shutdown", interrupted=True)
        case Event.CANCEL:
            return transitions.cancel(session, job_id, account_id)
        case Event.EXPIRE:
            if factories.state_of(session, job_id) in (State.RUNNING, State.CANCEL_REQUESTED):
                factories.let_the_lease_run_out(session, job_id)
            return transitions.expire(session, job_id, max_interruptions=5)
        case Event.REPLAY:
            return transitions.replay(session, job_id, deadline_seconds=600, more_attempts=3, cause="test")
        case Event.INSPECT:
            return inspection.inspect(session, job_id, by="olga@example.org", cause="test")
    raise AssertionError(event)


EVENTS = [event for event in Event if event not in (Event.RECORD, Event.RENEW)]


@pytest.mark.parametrize(("event", "state"), list(itertools.product(EVENTS, State)))
def test_an_event_moves_a_job_as_the_table_says_or_leaves_it_alone(
    database: Database, account_id: uuid.UUID, event: Event, state: State
) -> None:
    with database.transaction() as session:
        job_id, claim = bring_to(session, account_id, state)
    expected = TRANSITIONS[event].get(state)
    with database.transaction() as session:
        before = session.execute(text("SELECT * FROM jobs WHERE id = :id"), {"id": job_id}).one()
        try:
            answer = happen(session, event, job_id, claim, account_id)
        except (ClaimLost, CancelRequested):
            answer = None
        after = session.execute(text("SELECT * FROM jobs WHERE id = :id"), {"id": job_id}).one()
        if expected is None:
            assert answer is None or isinstance(answer, Refused)
            assert after == before
        else:
            assert answer is not None
            assert after.state == expected
            assert after.revision > before.revision
        assert job_views.orphans(session, grace_seconds=0) == 0


def test_an_attempt_is_closed_once_with_its_outcome(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id, claim = bring_to(session, account_id, State.RETRY_WAIT)
        factories.let_the_wait_be_over(session, job_id)
        second = factories.claim(session, job_id)
        transitions.succeed(session, second, text="A summary.", facts={})
        attempts = job_views.attempts_of(session, job_id)
        assert [(one.generation, one.number, one.outcome) for one in attempts] == [
            (1, 1, Outcome.RETRY),
            (2, 2, Outcome.SUCCEEDED),
        ]
        assert claim.generation == 1


def test_an_interruption_is_no_attempt_and_too_many_end_the_job(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        for interruption in range(1, 4):
            factories.let_the_wait_be_over(session, job_id)
            claim = factories.claim(session, job_id, alone=True)
            assert claim.attempt == 1
            factories.let_the_lease_run_out(session, job_id)
            state = transitions.expire(session, job_id, max_interruptions=2)
            assert state is (State.RETRY_WAIT if interruption < 3 else State.FAILED)
        view = job_views.any_job(session, job_id)
        assert view is not None
        assert (view.error_category, view.error_code) == ("crashed", "interrupted_too_often")


def test_a_lease_that_was_renewed_in_time_is_not_expired(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        factories.claim(session, job_id)
        assert transitions.expire(session, job_id, max_interruptions=5) is None
        assert factories.state_of(session, job_id) is State.RUNNING


def test_a_reservation_that_is_over_ends_the_claim_although_something_still_renews(
    database: Database, account_id: uuid.UUID
) -> None:
    from tasks.ledger.jobs import leases

    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        session.execute(text("UPDATE jobs SET lease_expires_at = now(), reserved_until = now()"))
    with database.transaction() as session:
        assert leases.renew(session, [claim], lease_seconds=15).states == {}
        assert transitions.expire(session, job_id, max_interruptions=5) is State.RETRY_WAIT


def test_an_early_message_is_refused_and_the_delivery_stays_owed_for_the_right_moment(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id, _ = bring_to(session, account_id, State.RETRY_WAIT)
    with database.transaction() as session:
        assert transitions.claim(
            session, job_id, worker="w", lane="local", lease_seconds=1, reservation_seconds=2
        ) == Refused("early")
        owed = session.execute(select(Delivery).where(Delivery.job_id == job_id)).scalar_one()
        assert owed.due_at == owed.not_before


def test_a_job_past_its_deadline_is_not_claimed(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id, deadline_seconds=-1).job_id
        refused = transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=1, reservation_seconds=2)
        assert refused == Refused("deadline")
        assert stale.waiting_past_deadline(session, queue=factories.QUEUE, limit=5) == [job_id]


def test_a_replayed_job_keeps_its_identity_and_goes_on_counting(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id, _ = bring_to(session, account_id, State.FAILED)
        transitions.replay(session, job_id, deadline_seconds=600, more_attempts=3, cause="quota is back")
        claim = factories.claim(session, job_id)
        assert (claim.generation, claim.attempt, claim.max_attempts) == (3, 2, 4), "the replay has a generation, too"
        generations = session.execute(select(Attempt.generation).where(Attempt.job_id == job_id)).scalars().all()
        assert sorted(generations) == [1, 3]


def test_somebody_elses_job_can_be_neither_cancelled_nor_replayed(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        stranger = factories.make_account(session)
        queued, _ = bring_to(session, account_id, State.QUEUED)
        assert transitions.cancel(session, queued, stranger) is None
        with session.begin_nested():
            failed = factories.submit(session, account_id, b"another text").job_id
            transitions.fail(session, factories.claim(session, failed), category=Category.QUOTA)
        assert (
            transitions.replay(
                session, failed, deadline_seconds=9, more_attempts=1, cause="mine now", account_id=stranger
            )
            is None
        )


def test_the_database_itself_refuses_nonsense(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    for nonsense, constraint in [
        ("state = 'finished'", "state_is_known"),
        ("state = 'succeeded'", "finished_if_and_only_if_terminal"),
        ("state = 'running'", "held_if_and_only_if_being_worked_on"),
        ("state = 'failed', finished_at = now()", "a_failed_job_has_a_cause"),
        ("state = 'retry_wait'", "next_attempt_known_while_waiting_to_retry"),
        ("progress_done = 2, progress_total = 1", "progress_is_measured"),
        ("attempts = -1", "counters_do_not_go_below_zero"),
        ("error_category = 'bad luck'", "error_category_is_known"),
    ]:
        with pytest.raises(Exception, match=constraint), database.transaction() as session:
            session.execute(text(f"UPDATE jobs SET {nonsense} WHERE id = :id"), {"id": job_id})
