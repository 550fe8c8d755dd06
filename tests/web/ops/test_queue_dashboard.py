"""Tests rq-dashboard: off by default, for operators, read-only, over the site's own connections."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from flask import Flask
from pydantic import SecretStr

from tasks.database import Database
from tasks.queue import DeliveryQueue, message_id
from tests.support import factories
from tests.web.conftest import Browser, Person
from webapp.http.security import HEADERS
from webapp.local.ports import free_port

LOOKS = [
    "/ops/rq/",
    "/ops/rq/0/view/workers",
    "/ops/rq/0/view/jobs",
    f"/ops/rq/0/view/jobs/{factories.QUEUE}/failed/8/asc/1",
    "/ops/rq/0/data/queues.json",
    "/ops/rq/0/data/workers.json",
    *(
        f"/ops/rq/0/data/jobs/{factories.QUEUE}/{registry}/8/{order}/1.json"
        for registry in ("queued", "failed", "deferred", "started", "finished", "scheduled", "canceled")
        for order in ("asc", "dsc")
    ),
]
CHANGES = [
    f"/ops/rq/requeue/{factories.QUEUE}",
    "/ops/rq/job/x/requeue",
    "/ops/rq/job/x/delete",
    f"/ops/rq/queue/{factories.QUEUE}/queued/empty",
    f"/ops/rq/queue/{factories.QUEUE}/compact",
]


@pytest.fixture
def shown(make_app: Callable[..., Flask]) -> Flask:
    return make_app(rq_dashboard_enabled=True)


@pytest.fixture
def olga_there(shown: Flask, olga: Person) -> Person:
    """Return the operator at a site with the dashboard."""
    return Person(shown, olga.id)


@pytest.fixture
def waiting(queue: DeliveryQueue) -> str:
    """Put a message into the queue."""
    job_id = uuid.uuid4()
    queue.send(job_id, 1, wait_seconds=0)
    return message_id(job_id, 1)


def test_it_is_off_by_default(olga: Person, settings) -> None:
    assert not settings.rq_dashboard_enabled
    assert olga.get("/ops/rq/").status_code == 404
    assert "/ops/rq/" not in olga.get("/ops").text


def test_the_operators_pages_lead_there(olga_there: Person) -> None:
    assert 'href="/ops/rq/"' in olga_there.get("/ops").text


def test_an_operator_can_look_everywhere(olga_there: Person, waiting: str) -> None:
    for path in [*LOOKS, f"/ops/rq/0/view/job/{waiting}"]:
        answer = olga_there.get(path)
        assert answer.status_code == 200, path
        assert olga_there.client.head(path).status_code == 200, path
        policy = answer.headers["Content-Security-Policy"]
        assert "'unsafe-inline'" in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "no-store" in answer.headers["Cache-Control"]


def test_a_message_is_shown_as_it_is_sent(olga_there: Person, waiting: str) -> None:
    listed = olga_there.get(f"/ops/rq/0/data/jobs/{factories.QUEUE}/queued/8/asc/1.json").json
    assert [job["id"] for job in listed["jobs"]] == [waiting]
    shown = olga_there.get(f"/ops/rq/0/data/job/{waiting}.json").json
    assert shown["id"] == shown["description"] == waiting
    assert shown["status"] == "queued" and shown["origin"] == factories.QUEUE and shown["exc_info"] is None


def test_nobody_else_finds_it(shown: Flask, ada: Person, waiting: str) -> None:
    plain, nobody = Person(shown, ada.id), Browser(shown)
    for path in [*LOOKS, *CHANGES, f"/ops/rq/0/view/job/{waiting}", "/ops/rq/static/css/main.css", "/ops/rq/nothing"]:
        for method in ("GET", "POST"):
            assert plain.client.open(path, method=method).status_code == 404, path
            assert nobody.client.open(path, method=method).location.startswith("/login"), path


def test_nothing_can_be_changed_also_not_with_a_proof_of_origin(
    olga_there: Person, queue: DeliveryQueue, waiting: str
) -> None:
    for path in [*CHANGES, f"/ops/rq/job/{waiting}/delete", f"/ops/rq/job/{waiting}/requeue"]:
        assert olga_there.get(path).status_code in (403, 405), path
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = olga_there.client.open(path, method=method, headers={"X-CSRFToken": olga_there.token("/account")})
            assert answer.status_code == (403 if "/requeue" in path else 405), (method, path)
            assert ("use Replay" in answer.text) == ("/requeue" in path)
    for path in LOOKS:
        assert olga_there.post(path, page="/account").status_code == 405, path
    assert queue.waiting([waiting]) == {waiting}


@pytest.mark.parametrize(
    "path",
    [
        "/ops/rq/0/data/job/nothing.json",
        "/ops/rq/0/view/job/nothing",
        f"/ops/rq/0/data/jobs/{factories.QUEUE}/nothing/8/asc/1.json",
        f"/ops/rq/0/data/jobs/{factories.QUEUE}/queued/0/asc/1.json",
        f"/ops/rq/0/data/jobs/{factories.QUEUE}/queued/x/asc/1.json",
        "/ops/rq/nothing",
    ],
)
def test_addresses_made_by_hand_are_not_there(olga_there: Person, path: str) -> None:
    assert olga_there.get(path).status_code == 404


def test_its_looser_rules_for_scripts_are_its_own(olga_there: Person) -> None:
    for path in ("/", "/ops", "/nothing", "/ops/nothing"):
        assert olga_there.get(path).headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"], path


def test_what_lies_in_redis_is_never_unpickled(olga_there: Person, queue: DeliveryQueue, waiting: str) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("it was unpickled",))

    queue.connection.hset(f"rq:job:{waiting}", "data", pickle.dumps(Trap()))
    for path in (f"/ops/rq/0/view/job/{waiting}", *LOOKS):
        assert olga_there.get(path).status_code == 200, path
    assert olga_there.get(f"/ops/rq/0/data/job/{waiting}.json").status_code in (200, 404)


def test_no_connection_is_opened_for_it(olga_there: Person, queue: DeliveryQueue) -> None:
    olga_there.get("/ops/rq/0/data/queues.json")
    before = {client["id"] for client in queue.connection.client_list()}
    for _ in range(20):
        for path in ("/ops/rq/", "/ops/rq/0/data/queues.json", "/ops/rq/0/data/workers.json", "/ops/rq/7/"):
            assert olga_there.get(path).status_code == 200
    assert {client["id"] for client in queue.connection.client_list()} <= before


def test_the_address_of_redis_is_not_shown(olga_there: Person, addresses: dict[str, str]) -> None:
    page = olga_there.get("/ops/rq/").text
    assert "the Redis of this site" in page and "redis://" not in page


def test_a_queue_that_is_away_is_said(make_app: Callable[..., Flask], olga: Person, database: Database) -> None:
    away = Person(
        make_app(rq_dashboard_enabled=True, redis_url=SecretStr(f"redis://127.0.0.1:{free_port()}/0")), olga.id
    )
    answer = away.get("/ops/rq/0/view/workers")
    assert answer.status_code == 503 and "The queue cannot be reached" in answer.text
