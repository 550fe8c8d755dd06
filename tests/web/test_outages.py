"""Redis or the database away: what was accepted stays accepted, and nobody sees a traceback."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select, text

from tasks.database import Database
from tasks.ledger import liveness
from tasks.ledger.models import Delivery, Job
from tasks.queue import DeliveryQueue
from tests.web.conftest import Bench, Browser, Person, job_id_in, rows
from webapp.embedded import free_port


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
    app: Flask, without_database: Flask, without_redis: Flask, database: Database, bench: Bench
) -> None:
    def missing(of: Flask) -> tuple[int, list[str]]:
        answer = of.test_client().get("/readyz")
        return answer.status_code, answer.json["missing"]

    assert missing(app) == (503, ["worker"])
    with database.transaction() as session:
        liveness.show_life(session, "w", slots=1)
    assert missing(app) == (200, [])
    assert missing(without_database) == (503, ["database"])
    assert missing(without_redis) == (503, ["redis"])
    bench.job()
    with database.transaction() as session:
        session.execute(text("DELETE FROM deliveries"))
    assert missing(app) == (503, ["orphans"])


def test_readyz_notices_a_database_that_is_behind(app: Flask, database: Database) -> None:
    with database.transaction() as session:
        before = session.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        session.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    try:
        assert app.test_client().get("/readyz").json["missing"] == ["migrations"]
    finally:
        with database.transaction() as session:
            session.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": before})


def test_a_fault_of_ours_is_a_page_without_its_message(
    app: Flask, ada: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from webapp import jobs

    def fail(*args: object, **more: object) -> None:
        raise RuntimeError("The document said: secret")

    ada.token("/account")
    monkeypatch.setattr(jobs, "submit", fail)
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
