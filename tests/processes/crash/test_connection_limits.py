"""Plans with few connections: if none is free, users get a message, and no job is lost or run twice."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.delivery import fair_order
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue, message_id
from tests.support import factories
from tests.support.processes.processes import asking, worker
from tests.support.site import Opened, Site
from tests.web.conftest import Person
from webapp import create_app
from webapp.extensions import db


def allow(database: Database, role: str | None, connections: int) -> None:
    """Change the limit of connections, and cut those above it."""
    with database.transaction() as session:
        session.execute(text(f"ALTER ROLE {role} CONNECTION LIMIT {connections}"))
    with database.transaction() as session:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = :role"
        if not connections:
            session.execute(text(cut), {"role": role})


@pytest.mark.crash
def test_without_a_free_connection_pages_say_so_and_a_paid_answer_is_saved_later(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with factories.role_with_few_connections(addresses, 5) as ours, FakeProvider() as fake:
        role = make_url(ours["DATABASE_URL"]).username
        fake.script([{"mode": "gate"}])
        app = create_app(factories.settings(ours))
        person = Person(app, account_id)
        assert person.get("/").status_code == 200
        with worker(ours, **asking(fake)) as running:
            here = Site(fake, database, account_id, ours, running)
            job = here.submit()
            fake.wait_for_requests(1)
            allow(database, role, 0)
            fake.release()
            running.wait_for_log("database.out_of_reach")
            busy = person.get("/")
            assert (busy.status_code, "cannot reach its database right now" in busy.text) == (503, True)
            assert here.view(job).state is State.RUNNING
            allow(database, role, 5)
            here.wait_for(job, State.SUCCEEDED, within=40)
            assert person.get("/").status_code == 200
            assert here.outcomes(job) == ["succeeded"]
            assert len(fake.requests) == 1
        with app.app_context():
            db.engine.dispose()


def test_a_redis_that_takes_nobody_more_refuses_no_document(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    queue.require_usable()
    max_clients = queue.connection.config_get("maxclients")["maxclients"]
    app = create_app(factories.settings(addresses))
    person = Person(app, account_id)
    person.token("/account")
    try:
        queue.connection.config_set("maxclients", 1)
        assert person.paste("once").status_code == 303
        assert queue.depth() == 0
        with database.transaction() as session:
            assert factories.count(session, "deliveries WHERE dispatched_at IS NULL") == 1
    finally:
        queue.connection.config_set("maxclients", max_clients)
    assert person.paste("twice").status_code == 303
    assert queue.depth() == 1  # the other delivery is left to the loop
    with app.app_context():
        db.engine.dispose()
    app.extensions["waybill"].queue.connection.connection_pool.disconnect()


@pytest.mark.crash
def test_messages_that_redis_threw_away_to_make_room_are_sent_again(site: Opened, queue: DeliveryQueue) -> None:
    with site({"mode": "gate"}, slots=1) as here:
        queue.mark_as_known()
        first = here.submit(b"a text that holds the only slot")
        here.fake.wait_for_requests(1)
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(fair_order.PREFETCH)]
        factories.wait_until(lambda: queue.depth() == fair_order.PREFETCH)
        messages = [message_id(job, 1) for job in jobs]
        for message in messages[:2]:
            queue.connection.delete(f"rq:job:{message}")  # the message is gone, but its id is still in the list
        for message in messages[2:4]:
            queue.connection.lrem(queue.rq.key, 0, message)
        with here.database.transaction() as session:  # instead of waiting
            session.execute(text("UPDATE deliveries SET due_at = now()"))
        here.fake.release()
        for job in (first, *jobs):
            here.wait_for(job, State.SUCCEEDED, within=40)
        assert len(here.fake.requests) == 1 + fair_order.PREFETCH
        assert here.orphans() == 0
