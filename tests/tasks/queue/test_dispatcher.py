"""Owed deliveries reach the queue, whatever Redis loses: postponed, sent, and consumed by a claim."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rq.job import JobStatus
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.delivery import outbox
from tasks.ledger.errors import Category
from tasks.ledger.jobs import guarded_update, leases, transitions
from tasks.ledger.reports import job_views
from tasks.queue import DELIVER, DeliveryQueue, message_id
from tasks.queue.dispatcher import POSTPONE_SECONDS, Dispatcher
from tasks.queue.redis_client import QueueUnreachable, connect
from tasks.settings import Settings
from tests.support import factories


@pytest.fixture
def dispatcher(database: Database, queue: DeliveryQueue) -> Dispatcher:
    queue.mark_as_known()  # so that the empty Redis does not count as flushed
    return Dispatcher(database.transaction, queue)


def submit(database: Database, account_id: uuid.UUID, content: bytes = factories.TEXT) -> uuid.UUID:
    with database.transaction() as session:
        return factories.submit(session, account_id, content).job_id


def let_it_be_due_again(database: Database) -> None:
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET due_at = now()"))


def test_a_message_carries_ids_and_nothing_else(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    job_id = submit(database, account_id)
    assert dispatcher.dispatch_now(job_id)
    message = queue.rq.fetch_job(message_id(job_id, 1))
    assert message is not None
    assert message.func_name == DELIVER
    assert message.kwargs == {"v": 1, "job": job_id.hex, "delivery": 1}
    assert message.description == message.id == f"{job_id.hex}-1"
    stored = b"".join(value for key in queue.connection.scan_iter() for value in _dump(queue, key))
    for secret in (b"harbour", b"Harbour", b"pier"):
        assert secret not in stored


def _dump(queue: DeliveryQueue, key: bytes) -> list[bytes]:
    if queue.connection.type(key) != b"hash":
        return [key]
    return [part for pair in queue.connection.hgetall(key).items() for part in pair]


def test_a_backlog_makes_no_second_copy(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    submit(database, account_id)
    for _ in range(3):
        dispatcher.step()
        let_it_be_due_again(database)
    assert queue.depth() == 1


@pytest.mark.parametrize("loss", ["hash", "entry", "both"])
def test_a_message_that_redis_lost_is_sent_again_under_a_new_number(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID, loss: str
) -> None:
    job_id = submit(database, account_id)
    dispatcher.step()
    if loss in ("hash", "both"):
        queue.connection.delete(f"rq:job:{message_id(job_id, 1)}")
    if loss in ("entry", "both"):
        queue.connection.lrem(queue.rq.key, 0, message_id(job_id, 1))
    let_it_be_due_again(database)
    dispatcher.step()
    assert message_id(job_id, 2) in queue.rq.get_job_ids()


def test_when_redis_forgot_everything_all_that_was_sent_is_sent_again_at_once(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=20)
    for n in range(20):
        submit(database, account_id, f"text number {n}".encode())
    assert dispatcher.step() == 20
    queue.connection.flushdb()
    assert dispatcher.step() == 20
    assert queue.depth() == 20


def test_a_crash_between_send_and_note_sends_the_same_number_and_makes_no_copy(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    job_id = submit(database, account_id)
    queue.send(job_id, 1, wait_seconds=0)
    dispatcher.step()
    assert queue.rq.get_job_ids() == [message_id(job_id, 1)]


def test_a_retry_waits_in_rqs_scheduled_registry_and_is_promoted_when_due(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=60)
    dispatcher.step()
    assert queue.depth() == 0
    assert queue.scheduled([message_id(job_id, 2)]) == {message_id(job_id, 2)}
    with database.transaction() as session:
        factories.let_the_wait_be_over(session, job_id)
    dispatcher.step()
    assert queue.rq.get_job_ids() == [message_id(job_id, 3)]
    assert queue.scheduled([message_id(job_id, 2)]) == set()


def test_without_redis_nothing_is_postponed_and_the_submit_goes_on(
    database: Database, settings: Settings, account_id: uuid.UUID
) -> None:
    from webapp.local.ports import free_port

    nowhere = settings.model_copy(update={"redis_url": type(settings.redis_url)(f"redis://127.0.0.1:{free_port()}")})
    connection = connect(nowhere, connections=1, answer_within_seconds=0.2)
    dispatcher = Dispatcher(database.transaction, DeliveryQueue(nowhere, connection))
    job_id = submit(database, account_id)
    assert not dispatcher.dispatch_now(job_id)
    with pytest.raises(QueueUnreachable):
        dispatcher.step()
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) == 0
        assert job_views.orphans(session, grace_seconds=0) == 0


@pytest.mark.race
def test_dispatchers_that_run_at_once_send_each_delivery_once(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=30)
    for n in range(30):
        submit(database, account_id, f"text number {n}".encode())
    handled = factories.all_at_once([dispatcher.step] * 4)
    assert sum(one for one in handled if isinstance(one, int)) == 30, handled
    assert queue.depth() == 30


def test_nothing_reaches_the_queue_before_the_commit(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction() as session:
        factories.submit(session, account_id)
        session.flush()  # the rows are written; only the commit is missing
        assert dispatcher.step() == 0
        assert queue.depth() == 0
        raise ZeroDivisionError  # the commit fails
    assert dispatcher.step() == 0
    assert queue.depth() == 0
    submit(database, account_id)
    assert dispatcher.step() == 1
    assert queue.depth() == 1


@pytest.mark.parametrize("state", ["queued", "started", "finished", "failed"])
def test_the_same_number_sent_twice_is_one_message_whatever_became_of_the_first(
    database: Database, queue: DeliveryQueue, account_id: uuid.UUID, state: str
) -> None:
    job_id = submit(database, account_id)
    assert queue.send(job_id, 1, wait_seconds=0)
    message = queue.rq.fetch_job(message_id(job_id, 1))
    assert message is not None
    if state != "queued":
        queue.rq.remove(message)
        message.set_status(JobStatus(state))
    assert not queue.send(job_id, 1, wait_seconds=0)
    assert queue.depth() == (1 if state == "queued" else 0)
    assert queue.send(job_id, 2, wait_seconds=0)


def test_control_without_unique_ids_the_same_number_is_two_messages(
    database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    job_id = submit(database, account_id)
    for _ in range(2):
        queue.rq.enqueue(DELIVER, kwargs={"v": 1, "job": job_id.hex, "delivery": 1}, job_id=message_id(job_id, 1))
    assert queue.depth() == 2


def test_a_message_that_arrived_and_had_to_wait_for_the_lane_does_not_count_as_lost(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        lanes.cool(session, "lane", seconds=30, category=Category.RATE_LIMITED, code=None)
    for _ in range(3):
        assert dispatcher.step(job_id) == 1
        with database.transaction() as session:
            claim = transitions.claim(session, job_id, worker="w", lane="lane", lease_seconds=9, reservation_seconds=60)
            assert claim == guarded_update.Refused("lane")
        with database.transaction() as session:
            factories.let_the_wait_be_over(session, job_id)
    with database.transaction() as session:
        lanes.resume(session, "lane", by="test", spread_seconds=0)
    dispatcher.step(job_id)
    with database.transaction() as session:
        assert outbox.seconds_until_next_due(session, factories.QUEUE) <= POSTPONE_SECONDS  # type: ignore[operator]


def test_a_forgetting_that_was_noticed_while_the_database_was_away_is_not_forgotten(
    database: Database, queue: DeliveryQueue, dispatcher: Dispatcher, account_id: uuid.UUID
) -> None:
    job_id = submit(database, account_id)
    dispatcher.step()
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET due_at = now() + interval '80 seconds'"))
    queue.connection.flushdb()

    @contextmanager
    def away() -> Iterator[Session]:
        raise OperationalError("", None, Exception("away"))
        yield

    assert not Dispatcher(away, queue).dispatch_now(job_id)
    assert dispatcher.step() == 1
