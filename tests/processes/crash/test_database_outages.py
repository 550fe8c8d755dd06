"""PostgreSQL may restart, drop connections or refuse them: accepted jobs continue, and a paid answer is saved."""

from __future__ import annotations

import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from tasks.database import Database, is_out_of_reach
from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import Process, asking, worker
from tests.support.site import Opened, Site
from webapp.local.postgresql import Server
from webapp.local.services import temporary_directory

OTHERS = text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'""")


def cut_every_connection(database: Database) -> None:
    database.engine.dispose()
    with database.transaction() as session:
        session.execute(OTHERS)


@pytest.mark.crash
def test_connections_cut_while_the_provider_works_cost_no_second_request(site: Opened) -> None:
    with site({"mode": "gate"}) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        cut_every_connection(here.database)
        here.fake.release()
        here.wait_for(job, State.SUCCEEDED)
        assert len(here.fake.requests) == 1
        assert here.outcomes(job) == ["succeeded"]


@dataclass(frozen=True)
class Outage:
    """A site on a PostgreSQL of its own, which a test may stop and start."""

    server: Server
    addresses: dict[str, str]
    database: Database
    account_id: uuid.UUID

    def stop(self) -> None:
        self.database.close()
        self.server.stop()

    def start(self) -> None:
        self.server.start()


@pytest.fixture
def outage(addresses: dict[str, str], queue: DeliveryQueue) -> Iterator[Outage]:
    with temporary_directory() as directory:
        server = Server(Path(directory) / "postgresql", throwaway=True)
        try:
            server.start()
            ours = {**addresses, "DATABASE_URL": server.address}
            factories.migrate(ours)
            with Database(factories.settings(ours), "waybill-test") as database:
                with database.transaction() as session:
                    account_id = factories.make_account(session)
                yield Outage(server, ours, database, account_id)
        finally:
            server.stop()
            server.remove()


@pytest.mark.crash
def test_a_paid_answer_is_saved_when_the_database_is_back(outage: Outage) -> None:
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}])
        with worker(outage.addresses, **asking(fake)) as running:
            here = Site(fake, outage.database, outage.account_id, outage.addresses, running)
            job = here.submit()
            fake.wait_for_requests(1)
            outage.stop()
            fake.release()
            running.wait_for_log("database.out_of_reach")
            outage.start()
            here.wait_for(job, State.SUCCEEDED)
            assert here.outcomes(job) == ["succeeded"]
            after = here.submit(b"a text handed in after the restart")
            here.wait_for(after, State.SUCCEEDED)
            assert len(fake.requests) == 2


@pytest.mark.crash
def test_an_outage_longer_than_the_lease_costs_no_worker_its_claims(outage: Outage) -> None:
    quick = {"LEASE_SECONDS": 1.5, "SWEEP_SECONDS": 0.2}
    with FakeProvider() as fake:
        fake.script([{"mode": "gate"}])
        with (
            worker(outage.addresses, **asking(fake, **quick)) as first,
            worker(outage.addresses, **asking(fake, **quick)) as second,
        ):
            here = Site(fake, outage.database, outage.account_id, outage.addresses, first)
            jobs = [here.submit(f"Report {number}.".encode()) for number in range(6)]
            fake.wait_for_requests(6)
            outage.stop()
            stopped_at = time.monotonic()
            factories.wait_until(lambda: time.monotonic() > stopped_at + 4)
            outage.start()
            for one in (first, second):
                factories.wait_until(lambda one=one: is_beating(outage.database, one))
            fake.release()
            for job in jobs:
                here.wait_for(job, State.SUCCEEDED)
            assert [here.outcomes(job) for job in jobs] == [["succeeded"]] * 6
            assert len(fake.requests) == 6
            with outage.database.transaction() as session:
                assert job_views.orphans(session) == 0


def is_beating(database: Database, worker: Process) -> bool:
    """Return True if the worker has sent a heartbeat in the last second."""
    statement = "SELECT count(*) FROM workers WHERE name LIKE '%-' || :pid || '-%' AND seen_at > now() - interval '1 s'"
    with contextlib.suppress(OperationalError), database.transaction() as session:
        return bool(session.execute(text(statement), {"pid": worker.popen.pid}).scalar_one())
    return False


@pytest.mark.crash
def test_a_paid_answer_is_held_while_the_database_takes_no_writes(site: Opened) -> None:
    with site({"mode": "gate"}) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        with here.database.transaction() as session:
            name = session.execute(text("SELECT current_database()")).scalar_one()
        set_read_only(here.database, name, "SET default_transaction_read_only = on")
        try:
            here.fake.release()
            here.worker.wait_for_log("ReadOnlySqlTransaction")
        finally:
            set_read_only(here.database, name, "RESET default_transaction_read_only")
        here.wait_for(job, State.SUCCEEDED)
        assert len(here.fake.requests) == 1 and here.outcomes(job) == ["succeeded"]


def set_read_only(database: Database, name: str, change: str) -> None:
    """Change the setting for new sessions, and end all others."""
    with database.transaction() as session:
        session.execute(text("SET TRANSACTION READ WRITE"))
        session.execute(text(f'ALTER DATABASE "{name}" {change}'))
    cut_every_connection(database)


@pytest.mark.crash
def test_a_worker_that_is_stopped_while_the_database_is_away_ends_as_asked(outage: Outage) -> None:
    with worker(outage.addresses, SHUTDOWN_GRACE_SECONDS=2) as running:
        outage.stop()
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.log
        assert "Traceback" not in running.log


@pytest.mark.crash
def test_a_worker_that_may_hold_two_connections_only_still_works(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with (
        factories.role_with_few_connections(addresses, 2) as ours,
        FakeProvider() as fake,
        worker(ours, slots=4, **asking(fake)) as running,
    ):
        here = Site(fake, database, account_id, ours, running)
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(8)]
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED, within=40)
        assert len(fake.requests) == 8
        assert here.orphans() == 0


Write = Callable[[Session, Claim], object]
WRITES: dict[str, tuple[Write, State]] = {
    "progress": (lambda s, c: transitions.progress(s, c, step="read", done=0, total=0), State.RUNNING),
    "checkpoint": (
        lambda s, c: checkpoints.save(s, c, "read", SavedStep("t", {}), next_step="x", done=0, total=1),
        State.RUNNING,
    ),
    "succeed": (lambda s, c: transitions.succeed(s, c, text="t", facts={}), State.SUCCEEDED),
    "retry_later": (
        lambda s, c: transitions.retry_later(s, c, category=Category.OVERLOADED, delay_seconds=5),
        State.RETRY_WAIT,
    ),
    "fail": (lambda s, c: transitions.fail(s, c, category=Category.QUOTA), State.FAILED),
    "release": (lambda s, c: transitions.release(s, c, reason="test", interrupted=True), State.QUEUED),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_connection_lost_before_the_commit_leaves_the_write_to_be_made_once_more(
    database: Database, account_id: uuid.UUID, name: str
) -> None:
    write, state = WRITES[name]
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
        before = factories.count(session, "events")
    lost = []

    def once_lost(session: Session) -> None:
        write(session, claim)
        if not lost:
            lost.append(True)
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    database.persist(once_lost, for_seconds=10)
    with database.transaction() as session:
        assert factories.state_of(session, job_id) is state
        assert (
            factories.count(session, "events") - before <= 1
        )  # the write that ended the attempt is in the history only once
        assert job_views.orphans(session, grace_seconds=0) == 0


def test_control_without_the_second_try_the_write_is_gone(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
    with pytest.raises(OperationalError) as lost, database.transaction() as session:
        transitions.succeed(session, claim, text="t", facts={})
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert is_out_of_reach(lost.value)
    with database.transaction() as session:
        assert factories.state_of(session, job_id) is State.RUNNING
        assert factories.count(session, "results") == 0


def test_what_no_second_try_can_cure_is_raised_at_once(database: Database) -> None:
    tries = []

    def wrong(session: Session) -> None:
        tries.append(True)
        session.execute(text("SELECT nothing FROM nowhere"))

    with pytest.raises(Exception, match="nowhere"):
        database.persist(wrong, for_seconds=10)
    assert len(tries) == 1
