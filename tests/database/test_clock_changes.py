"""Tests of clock changes: in a database with local time, waits keep their length when an hour repeats or is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models import Base, Delivery, Job
from tests.support import factories

PRETENDED = """
    CREATE SCHEMA pretended;
    CREATE TABLE pretended.clock (at timestamptz);
    INSERT INTO pretended.clock VALUES ('2026-01-01Z');
    CREATE FUNCTION pretended.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM pretended.clock';
    CREATE FUNCTION pretended.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pretended.now()'
"""


@pytest.fixture(scope="module")
def in_berlin(addresses: dict[str, str]) -> Iterator[Database]:
    """Yield a database with the time zone of Berlin, whose clock is a row that the test sets."""
    with factories.own_database(addresses["DATABASE_URL"]) as url:
        settings = factories.settings({**addresses, "DATABASE_URL": url})
        server = create_engine(settings.sqlalchemy_url)
        with server.begin() as connection:
            connection.execute(text(PRETENDED))
            name = server.url.database
            connection.execute(text(f"ALTER DATABASE {name} SET search_path = pretended, public, pg_catalog"))
            connection.execute(text(f"ALTER DATABASE {name} SET timezone = 'Europe/Berlin'"))
        server.dispose()
        database = Database(settings, "waybill-test")
        Base.metadata.create_all(database.engine)
        yield database
        database.close()


def set_clock(session: Session, at: datetime) -> None:
    session.execute(text("UPDATE clock SET at = :at"), {"at": at})


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 3, 29, 0, 58, tzinfo=UTC),  # two minutes before 2:00 in Berlin, a time that is skipped
        datetime(2026, 10, 25, 0, 58, tzinfo=UTC),  # two minutes before 3:00 in Berlin, which becomes 2:00 again
        datetime(2026, 12, 31, 22, 58, tzinfo=UTC),  # two minutes before the year ends in Berlin
    ],
)
def test_a_wait_over_a_change_of_the_clock_is_as_long_as_it_was_said_to_be(in_berlin: Database, at: datetime) -> None:
    with in_berlin.transaction() as session:
        set_clock(session, at)
        job_id = factories.submit(session, factories.make_account(session), deadline_seconds=1200).job_id
        claim = factories.claim(session, job_id, lease_seconds=100)
        job = session.get_one(Job, job_id)
        assert job.lease_expires_at == at + timedelta(seconds=100)
        assert job.deadline_at == at + timedelta(seconds=1200)
        assert job.deadline_at.utcoffset() == timedelta(0)  # read in UTC, so that pages may say so
        transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=300)
        due = session.execute(select(Delivery.not_before).where(Delivery.job_id == job_id)).scalar_one()
        assert due == at + timedelta(seconds=300)
        for seconds, given in ((299, Refused), (301, Claim)):
            set_clock(session, at + timedelta(seconds=seconds))
            answer = transitions.claim(
                session, job_id, worker="w", lane="local", lease_seconds=15, reservation_seconds=120
            )
            assert isinstance(answer, given)
        session.rollback()


def test_every_instant_is_kept_with_its_zone(database: Database) -> None:
    with database.transaction() as session:
        kept = session.execute(
            text(
                "SELECT data_type, count(*) FROM information_schema.columns"
                " WHERE table_schema = 'public' AND (data_type LIKE 'timestamp%' OR data_type = 'date') GROUP BY 1"
            )
        ).all()
    assert [kind for kind, _ in kept] == ["timestamp with time zone"]
