"""Tests of disabled accounts: none of their jobs begins, wherever it is on its way, and enabling lets them continue."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text, true

from tasks.database import Database
from tasks.ledger.accounts import disabled
from tasks.ledger.compiled import CompiledStatement
from tasks.ledger.delivery import fair_order, outbox
from tasks.ledger.errors import Category
from tasks.ledger.jobs import deadlines, transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.reports import current, job_views
from tasks.ledger.reports.poll import poll_state_of
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tests.support import factories


def submitted(database: Database, account_id: uuid.UUID, text: bytes = factories.TEXT) -> uuid.UUID:
    with database.transaction() as session:
        return factories.submit(session, account_id, text).job_id


def claim(database: Database, job_id: uuid.UUID) -> Claim | Refused:
    with database.transaction() as session:
        return transitions.claim(session, job_id, worker="w", lane="local", lease_seconds=60, reservation_seconds=90)


def disable(database: Database, account_id: uuid.UUID) -> bool:
    with database.transaction() as session:
        return disabled.disable(session, account_id)


def enable(database: Database, account_id: uuid.UUID) -> bool:
    with database.transaction() as session:
        return disabled.enable(session, account_id)


@pytest.fixture
def dispatcher(database: Database, queue: DeliveryQueue) -> Dispatcher:
    return Dispatcher(database.transaction, queue)


def test_no_job_is_claimed_and_enabling_lets_it_go_on(database: Database, account_id: uuid.UUID) -> None:
    job_id = submitted(database, account_id)
    assert disable(database, account_id) and not disable(database, account_id)
    assert claim(database, job_id) == Refused("disabled")
    with database.transaction() as session:
        job = job_views.job_of(session, job_id, account_id)
        assert job is not None and job.state is State.QUEUED and factories.count(session, "attempts") == 0
        assert job_views.orphans(session, grace_seconds=0) == 0, "it is owed its delivery yet"
    assert enable(database, account_id) and not enable(database, account_id)
    assert isinstance(claim(database, job_id), Claim)


def test_control_without_the_guard_of_the_claim_it_is_claimed(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submitted(database, account_id)
    disable(database, account_id)
    monkeypatch.setattr(transitions, "is_disabled", lambda _: ~true())
    assert isinstance(claim(database, job_id), Claim)


def test_its_jobs_are_not_sent_to_the_queue_and_others_are_not_held_up(
    database: Database, account_id: uuid.UUID, queue: DeliveryQueue, dispatcher: Dispatcher
) -> None:
    for number in range(20):
        submitted(database, account_id, factories.TEXT + b" %d" % number)
    disable(database, account_id)
    assert dispatcher.step() == 0 and queue.depth() == 0
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) is None, "else the dispatcher would never sleep"
        other = factories.make_account(session)
    theirs = submitted(database, other)
    with database.transaction() as session:
        assert fair_order.next_by_fair_share(session, factories.QUEUE, 10) == [theirs]
        assert factories.jobs_before(session, theirs) == 0
    assert dispatcher.step() == 1 and queue.depth() == 1
    enable(database, account_id)
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) == 0
    assert dispatcher.step() > 0 and queue.depth() > 1


def test_control_without_the_guard_of_the_turns_it_is_sent(
    database: Database, account_id: uuid.UUID, queue: DeliveryQueue, dispatcher: Dispatcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    submitted(database, account_id)
    disable(database, account_id)
    monkeypatch.setattr(fair_order, "is_disabled", lambda _: ~true())
    monkeypatch.setattr(fair_order, "_NEXT", CompiledStatement(fair_order._next_query()))
    assert dispatcher.step() == 1 and queue.depth() == 1


def test_a_message_that_was_on_its_way_is_refused_and_not_sent_again_and_again(
    database: Database, account_id: uuid.UUID, queue: DeliveryQueue, dispatcher: Dispatcher
) -> None:
    job_id = submitted(database, account_id)
    assert dispatcher.step() == 1
    disable(database, account_id)
    assert claim(database, job_id) == Refused("disabled")
    assert dispatcher.step() == 0
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) is None
    enable(database, account_id)
    assert dispatcher.step() == 1
    assert isinstance(claim(database, job_id), Claim)


def test_what_is_worked_on_is_finished_and_a_second_attempt_waits(database: Database, account_id: uuid.UUID) -> None:
    first, second = submitted(database, account_id), submitted(database, account_id, b"Another document altogether.")
    held = [claim(database, first), claim(database, second)]
    disable(database, account_id)
    assert all(isinstance(one, Claim) for one in held)
    with database.transaction() as session:
        assert transitions.succeed(session, held[0], text="Saved.", facts={}) is State.SUCCEEDED  # type: ignore[arg-type]
        transitions.retry_later(session, held[1], category=Category.TIMEOUT, delay_seconds=0)  # type: ignore[arg-type]
    assert claim(database, second) == Refused("disabled")


def test_its_waiting_jobs_cause_no_alert_and_are_shown_as_paused(database: Database, account_id: uuid.UUID) -> None:
    job_id = submitted(database, account_id)
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '10 minutes', due_at = not_before"))
        session.execute(text("UPDATE deliveries SET due_at = not_before"))
        assert outbox.oldest_overdue_seconds(session, factories.QUEUE) > 500
        assert session.execute(current._owed(session, factories.QUEUE)).one()[2] > 500
    disable(database, account_id)
    with database.transaction() as session:
        assert outbox.oldest_overdue_seconds(session, factories.QUEUE) == 0
        owed, late, age = session.execute(current._owed(session, factories.QUEUE)).one()
        assert (owed, late, age) == (1, 0, None)
        pulse = poll_state_of(session, job_id, account_id, factories.QUEUE)
        assert pulse is not None and pulse.paused and not pulse.undelivered and pulse.seconds_overdue is None


def test_its_jobs_end_at_their_deadline_like_others(database: Database, account_id: uuid.UUID) -> None:
    job_id = submitted(database, account_id)
    disable(database, account_id)
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET deadline_at = now()"))
        assert deadlines.end_at_deadline(session, job_id) is State.FAILED
