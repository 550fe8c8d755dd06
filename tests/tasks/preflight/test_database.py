"""The findings of preflight about settings, rows and schema; each check is seen failing."""

from __future__ import annotations

import uuid

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases
from tasks.ledger.schema import MIGRATIONS
from tasks.preflight import report
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import factories
from tests.support.services.preflight import line_of, said
from webapp.local.ports import free_port


@pytest.fixture
def with_worker(database: Database, queue: DeliveryQueue) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, "somebody", queue=factories.QUEUE, slots=4)


def test_all_is_well_on_a_host_that_can_keep_the_promise(settings: Settings, with_worker: None) -> None:
    lines, well = report(settings)
    assert well
    levels = [line[:4].strip() for line in lines[lines.index("") + 1 :]]
    assert [levels.count(level) for level in ("ok", "WARN", "FAIL", "--")] == [22, 0, 0, 0], lines
    table = "\n".join(lines)
    order = [table.index(name) for name in ("PROVIDER_CALL", "ATTEMPT_SECONDS", "RQ's", "RESERVATION", "RUNTIME")]
    assert order == sorted(order)


def test_what_the_rows_say(settings: Settings, database: Database, queue: DeliveryQueue, account_id: uuid.UUID) -> None:
    assert said(settings, "FAIL") == ["live workers"]
    with database.transaction() as session:
        leases.record_heartbeat(session, "somebody", queue=factories.QUEUE, slots=4)
        factories.submit(session, account_id)
        session.execute(text("DELETE FROM deliveries"))
    assert said(settings, "FAIL") == ["orphans"]
    with database.transaction() as session:
        session.execute(text("DELETE FROM jobs"))
        lanes.stop(session, settings.lane, category=Category.QUOTA, code=None)
    assert said(settings, "FAIL") == ["lane waybill-test"]


def test_a_schema_that_is_behind_and_one_that_is_ahead(
    settings: Settings, database: Database, with_worker: None
) -> None:
    def at(version: str) -> None:
        with database.transaction() as session:
            session.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})

    try:
        at(MIGRATIONS[-2])
        assert said(settings, "FAIL") == ["schema"]
        assert "flask --app wsgi db upgrade" in line_of(settings, "schema")
        at("a_later_one")
        assert (said(settings, "FAIL"), said(settings, "WARN")) == ([], ["schema"])
    finally:
        at(MIGRATIONS[-1])


def test_a_database_without_tables_is_told_from_one_that_is_away(
    addresses: dict[str, str], settings: Settings, with_worker: None
) -> None:
    with factories.own_database(addresses["DATABASE_URL"]) as empty:
        assert said(factories.settings({**addresses, "DATABASE_URL": empty}), "FAIL") == ["schema"]
    nowhere = SecretStr(f"postgres://u:hunter2@127.0.0.1:{free_port()}/site")
    away = settings.model_copy(update={"database_url": nowhere})
    assert said(away, "FAIL") == ["database"]
    assert "hunter2" not in "\n".join(report(away)[0])


@pytest.mark.parametrize(
    ("changed", "level", "question"),
    [
        ({"provider_call_seconds": 200}, "FAIL", "budgets nest"),
        ({"shutdown_grace_seconds": 4}, "WARN", "a stop"),
        ({"openai_background": True, "openai_base_url": "http://elsewhere/v1"}, "WARN", "background mode"),
        ({"web_concurrency": 200}, "FAIL", "connections to the database"),
    ],
)
def test_what_the_settings_say(
    settings: Settings, with_worker: None, changed: dict[str, object], level: str, question: str
) -> None:
    assert said(settings.model_copy(update=changed), level) == [question]
