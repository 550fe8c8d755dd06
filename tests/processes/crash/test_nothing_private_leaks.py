"""I10: documents, summaries, keys and provider messages never reach Redis, the log, the rows that operators read, or
the monitoring of the site: rq-dashboard, metrics, Sentry, OpenTelemetry.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from redis import Redis
from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.states import TERMINAL, State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.fakes.telemetry import Collector
from tests.support.processes import faulty_app
from tests.support.processes.processes import Process, answers, asking, process
from tests.support.site import Site
from webapp.auth.api_tokens import make_token
from webapp.auth.passwords import hash_password
from webapp.local.ports import free_port
from webapp.models import Account, Role

DOCUMENT, ANSWER, KEY, WORDS = "marked-document", "marked-answer", "sk-marked-key", "marked-provider-message"
PASSWORD, TOKEN = "marked-password", "marked-token-of-metrics"
SECRETS = (DOCUMENT, ANSWER, KEY, WORDS, PASSWORD, TOKEN, "<script>alert")
MESSAGE = f"<script>alert('{WORDS}')</script> about {DOCUMENT}"
FILE_NAME = f"<script>alert('{DOCUMENT}')<script>.txt"
STEPS = [
    {"mode": "ok", "text": f"A summary with {ANSWER} in it."},
    {"mode": "status", "code": 400, "err": "bad", "message": MESSAGE},
    {"mode": "status", "code": 500, "message": MESSAGE},
    {"mode": "badjson"},
    {"mode": "drop"},
    {"mode": "refusal"},
    {"mode": "auth", "message": f"{MESSAGE}: {KEY}"},
]
TABLES = ("events", "attempts", "provider_calls", "deliveries", "submissions", "workers", "lanes")


def everything_in(redis: Redis) -> bytes:
    """Return every key and value, of every type."""
    found = []
    for key in redis.scan_iter():
        kind = redis.type(key)
        found.append(key)
        if kind == b"hash":
            found += [part for pair in redis.hgetall(key).items() for part in pair]
        elif kind == b"stream":
            found.append(repr(redis.xrange(key)).encode())
        elif kind == b"string":
            found.append(redis.get(key) or b"")
        elif kind == b"list":
            found += redis.lrange(key, 0, -1)
        elif kind == b"zset":
            found += redis.zrange(key, 0, -1)
        elif kind == b"set":
            found += redis.smembers(key)
    return b"\n".join(found)


class Watched(Site):
    """Yield a site with all monitoring turned on, and with built-in faults."""

    web: Process
    address: str
    api: httpx2.Client
    operator: httpx2.Client

    def hand_in(self, content: bytes) -> uuid.UUID:
        taken = self.api.post(
            "/api/v1/jobs",
            files={"file": (FILE_NAME, content)},
            data={"title": f"<script>alert('{DOCUMENT}')</script>"},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )
        assert taken.status_code == 202, taken.text
        return uuid.UUID(taken.json()["id"])


@pytest.fixture
def operator_id(database: Database) -> uuid.UUID:
    with database.transaction() as session:
        account = Account(email="op@example.org", password_hash=hash_password(PASSWORD), role=Role.OPERATOR)
        session.add(account)
        session.flush()
        return account.id


@pytest.fixture
def watchers() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def watched(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, operator_id: uuid.UUID, watchers: Collector
) -> Iterator[Watched]:
    port = free_port()
    with database.transaction() as session:
        bearer = {"Authorization": f"Bearer {make_token(session, operator_id, 'test')}"}
    with FakeProvider() as fake:
        variables = factories.environment(
            addresses,
            HOST="127.0.0.1",
            PORT=str(port),
            RQ_DASHBOARD_ENABLED="1",
            METRICS_TOKEN=TOKEN,
            SENTRY_DSN=watchers.sentry_dsn,
            OTEL_EXPORTER_OTLP_ENDPOINT=watchers.address,
            **asking(fake, OPENAI_API_KEY=KEY, JOB_DEADLINE_SECONDS=300, MAX_ATTEMPTS=1),
        )
        address = f"http://127.0.0.1:{port}"
        with (
            process(["-m", "gunicorn", "tests.support.processes.faulty_app:app"], variables) as web,
            process(["-m", "tests.support.processes.faulty_app", "worker", "--slots", "1"], variables) as worker,
            httpx2.Client(base_url=address, headers=bearer, timeout=20) as api,
            httpx2.Client(base_url=address, timeout=20) as operator,
        ):
            worker.wait_for_log("worker.started", within=60)
            factories.wait_until(lambda: answers(f"{address}/healthz"), within=60, what=lambda: web.log)
            site = Watched(fake, database, operator_id, addresses, worker)
            site.web, site.address, site.api, site.operator = web, address, api, operator
            yield site


def sign_in(here: Watched) -> None:
    proof = re.search(r'name="csrf_token" value="([^"]+)"', here.operator.get("/login").text)
    assert proof
    fields = {"csrf_token": proof[1], "email": "op@example.org", "password": PASSWORD}
    assert here.operator.post(f"/login?next=/{DOCUMENT}", data=fields).status_code in (302, 303)


def go_wrong_in_the_web(here: Watched) -> None:
    """Send private words in URLs, headers and forms, and malformed requests."""
    assert here.operator.get(f"/breaks?{DOCUMENT}", headers={"User-Agent": DOCUMENT}).status_code == 500
    assert here.operator.get(f"/{DOCUMENT}?q={DOCUMENT}").status_code == 404
    assert here.operator.post("/jobs", data={"text": DOCUMENT}).status_code == 400
    for raw in (f"GET /{DOCUMENT} HTTP/9.9\r\n\r\n", f"{DOCUMENT}\r\n\r\n", f"GET / HTTP/1.1\r\n{DOCUMENT}\r\n\r\n"):
        with socket.create_connection(urlsplit(here.address).netloc.split(":"), 5) as connection:
            connection.sendall(raw.encode())
            connection.recv(1000)


def crawl(here: Watched) -> dict[str, str]:
    """Return every page of the dashboard that a link or a listed message leads to."""
    found: dict[str, str] = {}
    to_do = ["/ops/rq/", "/ops/rq/0/data/queues.json", "/ops/rq/0/data/workers.json"]
    while to_do:
        path = to_do.pop()
        if path in found:
            continue
        answer = here.operator.get(path)
        found[path] = answer.text
        if re.search("/(requeue|compact|empty|delete)", path):
            assert answer.status_code in (403, 405), path
            continue
        assert answer.status_code == 200 or answer.is_redirect, (path, answer.text, here.web.log[-2000:])
        to_do += re.findall(r'(?:href|src)="(/ops/rq/[^"]+)"', answer.text)
        if path.endswith(".json"):
            for link in re.findall(r'url": ?"(/ops/rq/[^"]+)"', answer.text):
                to_do += [link, link.replace("/view/", "/data/") + ".json"]
            messages = set(re.findall(r'"(?:id|job_id)": ?"([0-9a-f]{32}-\d+)"', answer.text))
            to_do += [f"/ops/rq/0/{page}" for one in messages for page in (f"view/job/{one}", f"data/job/{one}.json")]
    return found


@pytest.mark.crash
@pytest.mark.timeout(180)
def test_nothing_private_is_found_outside_the_rows_that_hold_it(
    watched: Watched, queue: DeliveryQueue, watchers: Collector
) -> None:
    here = watched
    sign_in(here)
    for number, step in enumerate(STEPS):
        here.fake.script([step, {"mode": "ok", "text": ANSWER}])
        job = here.hand_in(f"Text {number} holds {DOCUMENT}.".encode())
        if step["mode"] == "auth":
            factories.wait_until(lambda job=job: any(here.outcomes(job)), what=lambda: here.worker.log)
        else:  # to its end: a job that is tried again must not meet what the next one is to meet
            here.wait_for(job, *TERMINAL)
    here.ops("resume")
    here.wait_for(here.hand_in(f"%PDF-1.4 {DOCUMENT}".encode()), State.FAILED)
    broken = here.hand_in(f"{faulty_app.IN_THE_WORK} {DOCUMENT}".encode())
    here.wait_for(broken, State.FAILED)
    for fault in (faulty_app.IN_A_THREAD, faulty_app.IN_RQS_HANDS):
        here.wait_for(here.hand_in(f"{fault} {DOCUMENT}".encode()), State.SUCCEEDED)
    go_wrong_in_the_web(here)
    here.fake.script([{"mode": "gate", "text": ANSWER}])
    held, waiting = here.hand_in(f"Held {DOCUMENT}".encode()), here.hand_in(f"Waiting {DOCUMENT}".encode())
    factories.wait_until(lambda: here.fake.in_flight)
    pages = crawl(here)
    for seen in (held, waiting, broken):
        assert any(f"data/job/{seen.hex}" in path for path in pages), sorted(pages)
    metrics = here.operator.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    here.fake.release()
    here.wait_for(waiting, State.SUCCEEDED)
    with here.database.transaction() as session:
        rows = "\n".join(str(row) for table in TABLES for row in session.execute(text(f"SELECT * FROM {table}")))
        assert factories.count(session, "results") >= 5, "those that were tried again may be among them"
        kept = str(
            session.execute(text("SELECT title, filename FROM jobs JOIN documents ON documents.id = document_id")).all()
        )
        assert DOCUMENT in kept and "<script>alert" in kept, "the words are where they belong"
    factories.wait_until(
        lambda: broken.hex.encode() in watchers.to("/v1/traces"), within=40, what="the broken attempt's span"
    )
    factories.wait_until(lambda: watchers.to("/api/1/").count(b"ValueError") >= 3, within=40, what="three faults")
    seen_in = {
        "redis": everything_in(queue.connection).decode(errors="replace"),
        "the worker's log": here.worker.log,
        "the web's log": here.web.log,
        "rows": rows,
        "the dashboard": "\n".join(pages.values()),
        "metrics": metrics,
        "sentry": watchers.to("/api/1/").decode(errors="replace"),
        "traces": watchers.to("/v1/traces").decode(errors="replace"),
    }
    for place, content in seen_in.items():
        assert content, place
        for secret in SECRETS:
            assert secret not in content, f"{secret} in {place}: {excerpt(content, secret)}"
    assert_logs_are_lines_with_ids(here, broken)


def excerpt(content: str, secret: str) -> str:
    at = content.index(secret)
    return content[max(0, at - 200) : at + 100]


def assert_logs_are_lines_with_ids(here: Watched, broken: uuid.UUID) -> None:
    """Check that each line of both processes is JSON, and that the lines of an attempt carry all its ids."""
    web, worker = ([json.loads(line) for line in log.splitlines()] for log in (here.web.log, here.worker.log))
    for line in (*web, *worker):
        assert line["event"] and line["level"] and line["timestamp"], line
    of_the_job = [line for line in worker if line.get("job") == broken.hex and "generation" in line]
    assert {"attempt.began", "attempt.unexpected", "attempt.ended"} <= {line["event"] for line in of_the_job}
    assert all(line["generation"] == 1 and line["delivery"] == 1 for line in of_the_job)
    assert {"ended.by_exception", "delivery.unexpected"} <= {line["event"] for line in worker}
    asked = [line for line in web if line["event"] == "request.ended"]
    assert {line["status"] for line in asked} >= {200, 202, 400, 404, 500}
    assert any(line["event"] == "job.submitted" and line["job"] == broken.hex and line["request_id"] for line in web)
    assert any(line["event"] == "request.refused" and line["why"] == "malformed" for line in web)
