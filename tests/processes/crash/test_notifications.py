"""SIGKILL between the steps of a notification: it is sent again under the same key, and never lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid

import pytest
from sqlalchemy import text

from tasks.cli import ops
from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.notifications import preferences
from tasks.ledger.states import State
from tasks.notifications.sender import senders
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import factories
from tests.support.fakes.mail_and_webhook_servers import webhook_receiver
from tests.support.processes.processes import asking, worker

ONE_STEP = """
from tasks.database import Database
from tasks.notifications.sender import senders
from tasks.startup.loading import load
settings = load()
senders(Database(settings, "waybill-test").transaction, settings)[0].step()
"""


def a_minute_later(database: Database, tries: int) -> None:
    with database.transaction() as session:
        assert session.execute(text("SELECT tries, sent_at FROM notices")).one() == (tries, None)
        session.execute(text("UPDATE notices SET due_at = now()"))


def an_alert_begins_and_then_a_job_is_done(database: Database, settings: Settings, account_id: uuid.UUID) -> uuid.UUID:
    """Let an alert begin, then submit a job: a real worker must send both notifications."""
    with database.transaction() as session:
        late = factories.submit(session, account_id, b"handed over by nobody").job_id
        session.execute(text("UPDATE deliveries SET due_at = now() + interval '1 hour'"))  # never handed to the queue
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '1 minute'"))

    def begun() -> str:
        return next((line for line in ops.status(settings) if line.startswith("alert: queue_age, since")), "")

    factories.wait_until(begun, within=45, what="an alert")
    with database.transaction() as session:
        session.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": late})
        return factories.submit(session, account_id).job_id


@pytest.mark.crash
def test_a_kill_before_or_after_the_sending_loses_no_notice(
    addresses: dict[str, str], database: Database, settings: Settings, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with webhook_receiver() as hook, FakeProvider() as fake:
        with database.transaction() as session:
            preferences.set_webhook(session, account_id, hook.url)
        ours = asking(fake, WEBHOOK_LOOPBACK=1, WAYBILL_DIE_AT="notices.sent", ALERT_QUEUE_AGE_SECONDS=0.2)
        with worker(addresses, ready=False, **ours) as one:
            job_id = an_alert_begins_and_then_a_job_is_done(database, settings, account_id)
            assert one.wait(within=45) == -signal.SIGKILL, one.log
        with database.transaction() as session:
            assert factories.state_of(session, job_id) is State.SUCCEEDED, "its job never hears of it"
        assert len(hook.received) == 1
        a_minute_later(database, tries=1)

        dying = factories.environment(addresses, WEBHOOK_LOOPBACK="1", WAYBILL_DIE_AT="notices.taken")
        two = subprocess.run(
            [sys.executable, "-c", ONE_STEP], cwd=factories.ROOT, env=dying, capture_output=True, timeout=50
        )
        assert two.returncode == -signal.SIGKILL, two.stderr
        assert len(hook.received) == 1
        a_minute_later(database, tries=2)

        (survivor,) = senders(database.transaction, settings.model_copy(update={"webhook_loopback": True}))
        assert survivor.step() == 1 and survivor.wait_until_idle(20)
        assert len(hook.received) == 2
        assert len({request.headers["webhook-id"] for request in hook.received}) == 1
        assert len({request.body for request in hook.received}) == 1
    with database.transaction() as session:
        assert session.execute(text("SELECT sent_at IS NOT NULL FROM notices")).scalar_one()
