from __future__ import annotations

import uuid
from dataclasses import replace

from sqlalchemy import text

from tasks.database import Database
from tasks.ledger import calls, lanes, liveness
from tasks.ledger.errors import Category
from tasks.preflight import report
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import house
from webapp.embedded import free_port


def failing(settings: Settings) -> list[str]:
    lines, well = report(settings)
    found = [line.removeprefix("FAIL  ").split(":")[0] for line in lines if line.startswith("FAIL")]
    assert well is (found == [])
    return found


def a_worker(database: Database) -> None:
    with database.transaction() as session:
        liveness.show_life(session, "somebody", queue=house.QUEUE, slots=4)


def test_all_is_well_on_a_host_that_can_keep_the_promise(
    settings: Settings, database: Database, queue: DeliveryQueue
) -> None:
    a_worker(database)
    assert failing(settings) == []
    lines, _ = report(settings)
    table = "\n".join(lines)
    order = [table.index(name) for name in ("PROVIDER_CALL", "ATTEMPT_SECONDS", "RQ's", "RESERVATION", "RUNTIME")]
    assert order == sorted(order)


def test_each_thing_that_is_wrong_is_said_with_its_remedy(
    settings: Settings, database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    assert failing(settings) == ["live workers"]
    a_worker(database)
    with database.transaction() as session:
        house.submit(session, account_id)
        session.execute(text("DELETE FROM deliveries"))
    assert failing(settings) == ["orphans"]
    with database.transaction() as session:
        session.execute(text("DELETE FROM jobs"))
        lanes.stop(session, settings.lane, category=Category.QUOTA, code=None)
    assert failing(settings) == ["lane waybill-test"]
    with database.transaction() as session:
        lanes.resume(session, settings.lane, by="test", spread_seconds=0)
    queue.connection.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert failing(settings) == ["queue eviction policy"]
    finally:
        queue.connection.config_set("maxmemory-policy", "noeviction")


def test_places_that_ended_jobs_keep_at_the_provider_are_said(
    settings: Settings, database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    a_worker(database)
    in_background = settings.model_copy(update={"openai_background": True})
    assert "ok    background mode: 0 of 16 places taken" in report(in_background)[0]
    with database.transaction() as session:
        claim = house.claim(session, house.submit(session, account_id).job_id)
        call = calls.open_call(
            session, claim.job_id, claim.generation, replace(house.CALL, lane=settings.lane, background=True)
        )
        assert isinstance(call, uuid.UUID)
        calls.note_response(session, call, "resp_1", settings.lane)
    assert "ok    background mode: 1 of 16 places taken" in report(settings)[0]
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET state = 'cancelled', finished_at = now() - interval '1 hour', "
                             "lease_expires_at = NULL, reserved_until = NULL"))  # fmt: skip
    assert failing(in_background) == ["background mode"]


def test_services_that_do_not_answer_are_named_by_their_setting(
    settings: Settings, database: Database, queue: DeliveryQueue
) -> None:
    a_worker(database)
    secret = type(settings.redis_url)
    away = settings.model_copy(update={"redis_url": secret(f"redis://:hunter2@127.0.0.1:{free_port()}")})
    assert failing(away) == ["queue"]
    away = settings.model_copy(update={"database_url": secret(f"postgres://u:hunter2@127.0.0.1:{free_port()}/site")})
    assert failing(away) == ["database"]
    assert "hunter2" not in "\n".join(report(away)[0])


def test_a_database_without_tables_is_told_from_one_that_is_away(
    addresses: dict[str, str], queue: DeliveryQueue
) -> None:
    with house.own_database(addresses["DATABASE_URL"]) as empty:
        lines, well = report(house.settings({**addresses, "DATABASE_URL": empty}))
    assert not well
    assert any("flask --app wsgi db upgrade" in line for line in lines)
