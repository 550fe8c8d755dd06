"""Tests outages of Redis and the database: accepted jobs stay accepted, and nobody sees a traceback."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from flask import Flask
from pydantic import SecretStr
from redis import Redis
from sqlalchemy import func, select, text, update

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.models import Delivery, Job
from tasks.ledger.schema import MIGRATIONS
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.web.conftest import Browser, Person, WebHarness, job_id_in, poll_address, rows
from webapp.local.ports import free_port
from webapp.local.redis import Server
from webapp.services import services

HX = {"HX-Request": "true"}
AWAY = (
    "Accepted. The queue can’t be reached right now. "
    "Your document is safe, and the work starts automatically when the queue is back."
)


def age(database: Database, *, seconds: int) -> None:
    """Let the deliveries have been owed for this many seconds."""
    with database.transaction() as session:
        ago = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, seconds)
        session.execute(update(Delivery).values(not_before=ago, due_at=ago))


@pytest.fixture
def without_redis(make_app: Callable[..., Flask], settings) -> Flask:
    secret = type(settings.redis_url)
    return make_app(redis_url=secret(f"redis://127.0.0.1:{free_port()}/0"))


@pytest.fixture
def without_database(make_app: Callable[..., Flask], settings) -> Flask:
    secret = type(settings.database_url)
    return make_app(database_url=secret(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"))


def test_a_job_is_accepted_without_redis_and_owed(
    without_redis: Flask, ada: Person, database: Database, queue: DeliveryQueue
) -> None:
    person = Person(without_redis, ada.id)
    person.token("/account")
    started = time.monotonic()
    job_id = job_id_in(person.paste("once"))
    assert time.monotonic() - started < 2
    assert rows(database, select(Job.state)) == [("queued",)]
    assert rows(database, select(Delivery.job_id, Delivery.dispatched_at)) == [(job_id, None)]
    assert person.get(f"/jobs/{job_id}").status_code == 200


def test_while_the_queue_is_away_the_page_says_so_and_takes_it_back(
    without_redis: Flask, app: Flask, ada: Person, database: Database, bench: WebHarness
) -> None:
    person = Person(without_redis, ada.id)
    job_id = job_id_in(person.paste("once"))
    revision = rows(database, select(Job.revision))
    age(database, seconds=0)  # submitting may have taken as long as the page waits before it says so
    address = poll_address(person.get(f"/jobs/{job_id}").text)
    age(database, seconds=3)
    page = person.get(address, headers=HX)
    assert page.status_code == 200 and page.text.count(AWAY) == 1
    address = poll_address(page.text)
    assert person.get(address, headers=HX).status_code == 204

    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
    age(database, seconds=100)
    late = ada.get(address, headers=HX)
    assert late.text.count(AWAY) == 1 and late.text.count("Your document is safe") == 1
    address = poll_address(late.text)
    with app.app_context():
        assert services().dispatcher.dispatch_now(job_id)
    back = ada.get(address, headers=HX)
    assert back.status_code == 200 and AWAY not in back.text and "Waiting longer than usual" in back.text
    assert rows(database, select(Job.revision)) == revision


def test_a_young_job_a_claimed_one_and_one_behind_a_lane_do_not_blame_the_queue(
    ada: Person, database: Database, bench: WebHarness
) -> None:
    young, running, behind, handed_over = (bench.job() for _ in range(4))
    bench.claim(running)
    with database.transaction() as session:
        lanes.stop(session, "local", category=Category.QUOTA, code=None)
    with database.transaction() as session:
        transitions.claim(session, behind, worker="w", lane="local", lease_seconds=9, reservation_seconds=9)
    with database.transaction() as session:
        not_handed_over = update(Delivery).where(Delivery.job_id.in_([young, behind]))
        session.execute(not_handed_over.values(dispatched_at=None))
        hour_ago = func.now() - func.make_interval(0, 0, 0, 0, 1)
        session.execute(update(Delivery).where(Delivery.job_id == handed_over).values(not_before=hour_ago))
    with database.transaction() as session:
        session.execute(update(Delivery).where(Delivery.job_id == young).values(not_before=func.now()))
    for job_id in (young, running, behind, handed_over):
        assert AWAY not in ada.get(f"/jobs/{job_id}").text


def test_a_job_that_a_stopping_worker_put_back_does_not_blame_the_queue_while_no_worker_is_there(
    ada: Person, database: Database, bench: WebHarness
) -> None:
    job_id = bench.job()
    claim = bench.claim(job_id)
    with database.transaction() as session:
        transitions.release(session, claim, reason="shutdown", interrupted=True)
    age(database, seconds=3)
    page = ada.get(f"/jobs/{job_id}").text
    assert AWAY not in page and "Waiting for a free worker to continue." in page
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
    assert AWAY in ada.get(f"/jobs/{job_id}").text


def test_sign_in_works_without_redis_and_is_still_limited(without_redis: Flask) -> None:
    browser = Browser(without_redis)
    answers = [browser.post("/login", {"email": "a@example.org", "password": "guess"}).status_code for _ in range(12)]
    assert answers[0] == 401 and answers[-1] == 429 and set(answers) == {401, 429}


def test_without_the_database_every_page_says_so_kindly(without_database: Flask, ada: Person) -> None:
    person = Person(without_database, ada.id)
    for path in ("/", "/account", f"/jobs/{ada.id}", f"/jobs/{ada.id}/status?rev=1"):
        answer = person.get(path)
        assert answer.status_code == 503, path
        assert "cannot reach its database right now" in answer.text and "Traceback" not in answer.text
        assert "nobody@" not in answer.text and answer.headers["Retry-After"] == "30"
    api = person.client.get("/api/v1/jobs", headers={"Authorization": "Bearer wb_x"})
    assert (api.status_code, api.content_type) == (503, "application/problem+json")
    assert person.get("/nothing").status_code == 404
    assert person.client.post("/login", data={"csrf_token": "x"}).status_code == 400


def test_healthz_asks_nothing(without_database: Flask) -> None:
    answer = without_database.test_client().get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert "Set-Cookie" not in answer.headers


def test_readyz_names_what_is_missing(
    app: Flask, without_database: Flask, without_redis: Flask, database: Database, bench: WebHarness
) -> None:
    def missing(of: Flask) -> tuple[int, list[str]]:
        answer = of.test_client().get("/readyz")
        return answer.status_code, answer.json["missing"]

    assert missing(app) == (503, ["worker"])
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
    assert missing(app) == (200, [])
    assert missing(without_database) == (503, ["database"])
    assert missing(without_redis) == (503, ["redis"])
    bench.job()
    with database.transaction() as session:
        session.execute(text("DELETE FROM deliveries"))
    assert missing(app) == (503, ["orphans"])


def test_readyz_notices_a_database_that_takes_no_writes(
    make_app: Callable[..., Flask], database: Database, ada: Person
) -> None:
    app = make_app()
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
        name = session.execute(text("SELECT current_database()")).scalar_one()
        session.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    try:
        assert app.test_client().get("/readyz").json["missing"] == ["database"]
        answer = Person(app, ada.id).paste("A text that cannot be recorded now.")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
    finally:
        with database.transaction() as session:
            session.execute(text("SET TRANSACTION READ WRITE"))
            session.execute(text(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'))
        database.close()


def test_readyz_notices_a_redis_that_takes_no_messages(
    make_app: Callable[..., Flask], database: Database, own_redis: Server
) -> None:
    app = make_app(redis_url=SecretStr(own_redis.address))
    with database.transaction() as session:
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=1)
    assert app.test_client().get("/readyz").status_code == 200
    with Redis.from_url(own_redis.address) as master:
        master.config_set("maxmemory", "1mb")
        assert app.test_client().get("/readyz").json["missing"] == ["redis"]


def test_readyz_notices_a_database_that_is_behind_and_not_one_that_is_ahead(app: Flask, database: Database) -> None:
    """Check a rollback, after which the code is older than the database and works with it."""

    def missing_at(version: str) -> list[str]:
        with database.transaction() as session:
            session.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})
        missing: list[str] = app.test_client().get("/readyz").json["missing"]
        return missing

    try:
        assert missing_at(MIGRATIONS[-2]) == ["migrations"]
        assert missing_at("a_later_one") == ["worker"]
    finally:
        missing_at(MIGRATIONS[-1])


def test_a_fault_of_ours_is_a_page_without_its_message(
    app: Flask, ada: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from webapp.jobs import views

    def fail(*args: object, **more: object) -> None:
        raise RuntimeError("The document said: secret")

    ada.token("/account")
    monkeypatch.setattr(views, "submit", fail)
    app.config["TESTING"] = False
    answer = ada.paste()
    assert answer.status_code == 500
    assert "Something went wrong on our side" in answer.text and "secret" not in answer.text
    logged = capsys.readouterr()
    assert "RuntimeError" in logged.out + logged.err and "secret" not in logged.out + logged.err


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("PUT", "/", 405), ("GET", "/jobs", 405)]
)
def test_errors_have_the_look_of_the_site(browser: Browser, method: str, path: str, status: int) -> None:
    answer = browser.client.open(path, method=method)
    assert answer.status_code == status and 'class="brand"' in answer.text
