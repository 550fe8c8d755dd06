"""Tests which claims count as lost: leases, sessions that ended, locked rows, and outages that concern everybody."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger.jobs import leases, stale, transitions
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.models import Job
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.ledger.terms import RenewalTimes
from tasks.settings import Settings
from tests.support import factories

TIMES = RenewalTimes(beat_seconds=2, grace_seconds=5)


@pytest.fixture
def claims(database: Database, account_id: uuid.UUID) -> list[Claim]:
    """Return three claims of one worker."""
    with database.transaction() as session:
        jobs = [factories.submit(session, account_id, f"text {number}".encode()).job_id for number in range(3)]
        return [factories.claim(session, job, worker="holder") for job in jobs]


def beat(database: Database, name: str = "holder", *, has_session: bool = False, **more: object) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(
            session,
            name,
            queue=factories.QUEUE,
            slots=4,
            gap_seconds=TIMES.gap_seconds,
            has_session=has_session,
            **more,
        )


def change(database: Database, statement: str, **values: object) -> None:
    with database.transaction() as session:
        session.execute(text(statement), values)


def be_steady(database: Database, name: str = "other") -> None:
    """Let a worker's heartbeats have arrived for a minute."""
    beat(database, name)
    change(database, "UPDATE workers SET steady_since = now() - interval '1 minute' WHERE name = :name", name=name)


def let_leases_end(database: Database) -> None:
    change(
        database,
        "UPDATE jobs SET lease_expires_at = now() - interval '20 seconds' WHERE lease_expires_at IS NOT NULL",
    )


def lost(database: Database) -> set[uuid.UUID]:
    with database.transaction() as session:
        return set(stale.lost_claims(session, queue=factories.QUEUE, limit=9, renewal=TIMES))


def expired(database: Database, claim: Claim) -> State | None:
    with database.transaction() as session:
        return transitions.expire(session, claim.job_id, max_interruptions=5, renewal=TIMES)


@contextmanager
def locked(database: Database, job_id: uuid.UUID) -> Iterator[None]:
    """Keep the job's row locked in another transaction."""
    with database.transaction() as session:
        session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
        yield


def test_a_lease_that_ended_is_lost_while_other_workers_renew_theirs(database: Database, claims: list[Claim]) -> None:
    be_steady(database)
    assert lost(database) == set()
    let_leases_end(database)
    assert lost(database) == {claim.job_id for claim in claims}
    assert expired(database, claims[0]) is State.RETRY_WAIT


@pytest.mark.parametrize("settled", [False, True], ids=["just back", "for long"])
def test_after_an_outage_nothing_is_taken_back_before_everybody_could_renew(
    database: Database, claims: list[Claim], settled: bool
) -> None:
    """Check the guard, and as its control, that the same claims are lost once the heartbeats have gone on for long."""
    be_steady(database)
    change(database, "UPDATE workers SET seen_at = now() - interval '25 seconds'")
    let_leases_end(database)
    assert lost(database) == set(), "the database is back, and nobody has renewed yet"
    beat(database, "other")
    if settled:
        be_steady(database)
    assert (lost(database) != set()) is settled
    assert (expired(database, claims[0]) is not None) is settled


def test_the_outage_raises_no_alarm_about_orphans(database: Database, claims: list[Claim], settings: Settings) -> None:
    be_steady(database)
    change(database, "UPDATE workers SET seen_at = now() - interval '25 seconds'")
    let_leases_end(database)
    for _ in range(2):
        with database.transaction() as session:
            assert job_views.orphans(session, renewal=TIMES) == 0
            assert job_views.orphans(session) == 3, "as it was counted before"
        beat(database, "other")
    be_steady(database)
    with database.transaction() as session:
        assert job_views.orphans(session, renewal=TIMES) == 3, "they are really lost"


def test_without_any_worker_the_leases_decide(database: Database, claims: list[Claim]) -> None:
    let_leases_end(database)
    assert len(lost(database)) == 3


def test_a_locked_row_holds_up_no_other_claims_renewal(database: Database, claims: list[Claim]) -> None:
    be_steady(database)
    let_leases_end(database)
    with locked(database, claims[0].job_id):
        with database.transaction() as session:
            renewal = leases.renew(session, claims, lease_seconds=15)
        beat(database, unrenewed=renewal.unrenewed)
        assert renewal.unrenewed == [claims[0].job_id]
        assert set(renewal.states) == {claim.job_id for claim in claims}, "the worker goes on with all of them"
        assert lost(database) == set(), "the worker says that it holds the locked one, too"
        assert expired(database, claims[0]) is None
    assert expired(database, claims[0]) is None, "before the worker could renew it"
    change(database, "UPDATE workers SET unrenewed = '{}'")  # the control: without that report it is lost
    assert lost(database) == {claims[0].job_id}


def test_a_report_of_a_worker_that_fell_silent_does_not_count(database: Database, claims: list[Claim]) -> None:
    be_steady(database)
    beat(database, unrenewed=[claims[0].job_id])
    let_leases_end(database)
    change(database, "UPDATE workers SET seen_at = now() - interval '10 seconds' WHERE name = 'holder'")
    assert claims[0].job_id in lost(database)


@pytest.fixture
def short_lived(settings: Settings, claims: list[Claim]) -> Iterator[Database]:
    """Open a connection of its own for the holder's heartbeat."""
    with Database(settings, "waybill-test-heartbeat", pool_size=1) as own:
        yield own


def let_seconds_pass(database: Database, name: str, seconds: float) -> None:
    change(
        database,
        "UPDATE workers SET seen_at = seen_at - make_interval(secs => :seconds) WHERE name = :name",
        seconds=seconds,
        name=name,
    )


def test_when_a_workers_session_ends_its_claims_are_lost_before_their_leases(
    database: Database, claims: list[Claim], short_lived: Database
) -> None:
    be_steady(database)
    beat(short_lived, has_session=True)
    let_seconds_pass(database, "holder", 3)
    assert lost(database) == set(), "its session is there"
    short_lived.close()
    factories.wait_until(lambda: lost(database) == {claim.job_id for claim in claims}, within=5)
    beat(database)  # it lives, and has opened another session
    assert lost(database) == set()


def test_a_session_that_has_just_ended_says_nothing_yet(
    database: Database, claims: list[Claim], short_lived: Database
) -> None:
    be_steady(database)
    beat(short_lived, has_session=True)
    pid = short_lived_pid(short_lived)
    short_lived.close()
    factories.wait_until(lambda: not session_is_there(database, pid), within=5)
    assert lost(database) == set(), "the worker may be about to connect again"


def short_lived_pid(database: Database) -> int:
    with database.transaction() as session:
        return int(session.execute(text("SELECT pg_backend_pid()")).scalar_one())


def session_is_there(database: Database, pid: int) -> bool:
    with database.transaction() as session:
        statement = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
        return bool(session.execute(statement, {"pid": pid}).scalar_one())


def test_a_reservation_that_is_over_is_lost_whatever_the_worker_reports(
    database: Database, claims: list[Claim]
) -> None:
    be_steady(database)
    beat(database, unrenewed=[claims[0].job_id])
    change(
        database,
        "UPDATE jobs SET lease_expires_at = now(), reserved_until = now() WHERE id = :id",
        id=claims[0].job_id,
    )
    assert lost(database) == {claims[0].job_id}


def test_a_claim_that_waited_has_its_whole_lease(database: Database, account_id: uuid.UUID) -> None:
    """Check that the lease is stamped after the wait; stamped with the transaction's beginning, it would be over."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    with database.transaction() as session:
        session.execute(text("SELECT now(), pg_sleep(1.1)"))  # as if it had waited for a lock
        factories.claim(session, job_id, lease_seconds=1)
        left = "extract(epoch FROM lease_expires_at - clock_timestamp()), extract(epoch FROM lease_expires_at - now())"
        of_the_clock, of_the_transaction = session.execute(text(f"SELECT {left} FROM jobs")).one()
    assert of_the_clock > 0.5
    assert of_the_transaction > 2, "the control: by the beginning of the transaction it would have 1 second"


def test_no_claim_outlives_its_jobs_deadline(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id, deadline_seconds=4).job_id
        claim = factories.claim(session, job_id)
        job = session.get_one(Job, job_id)
        assert job.reserved_until == job.lease_expires_at == job.deadline_at
        assert 3 < claim.seconds_left <= 4
