"""Web and worker in one container on the smallest plan, stopped and started as hosts do it, under load."""

from __future__ import annotations

import http.client
import itertools
import json
import signal
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.cookiejar import CookieJar

import psutil
import pytest
import redis
from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.states import State
from tests.chaos.verdict import violations
from tests.support import factories
from tests.support.processes.processes import Process, answers, asking, process
from tests.support.site import SHORT
from tests.web.conftest import proof_in
from webapp.auth import api_tokens
from webapp.local.ports import free_port
from webapp.local.redis import Server

SMALLEST_PLAN = 20
"""Limits the connections to PostgreSQL, and those to Redis. Two containers must fit, since a deploy starts the new
container before it stops the old."""
GRACE_SECONDS = 12


class Crowd:
    """Runs API clients: each hands in one document after the other, and sends refused documents again."""

    def __init__(self, token: str, address: str) -> None:
        self.address = address
        self.accepted: set[uuid.UUID] = set()
        self.refusals: list[str] = []
        self._token = token
        self._gone_home = threading.Event()
        self._threads = ThreadPoolExecutor(3)
        self._works = [self._threads.submit(self._hand_in, person) for person in range(3)]

    def _hand_in(self, person: int) -> None:
        for number in itertools.count():
            key = f"{person}-{number}"
            while not (job_id := self._post(key)):
                if self._gone_home.wait(0.1):
                    return
            self.accepted.add(job_id)
            if self._gone_home.wait(0.1):
                return

    def _post(self, key: str) -> uuid.UUID | None:
        body = json.dumps({"text": f"The harbour committee met. Report {key}."}).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(f"{self.address}/api/v1/jobs", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return uuid.UUID(json.load(answer)["id"])
        except urllib.error.HTTPError as error:
            self.refusals.append(f"{error.code} {error.read()!r}")
            error.close()
        except (OSError, http.client.HTTPException):
            pass  # not reachable now; the idempotency key tells later whether the request arrived
        return None

    def go_home(self) -> None:
        self._gone_home.set()
        for work in self._works:
            work.result(20)
        self._threads.shutdown()


class Plan:
    """Holds the services of a small plan, and the containers that use them."""

    def __init__(self, stack: ExitStack, addresses: dict[str, str], fake: FakeProvider) -> None:
        self.stack = stack
        self.containers: list[Process] = []
        self.variables = factories.environment(
            addresses,
            **asking(fake, **SHORT, SHUTDOWN_GRACE_SECONDS=GRACE_SECONDS, SWEEP_SECONDS=0.5),
            HOST="127.0.0.1",
            SECRET_KEY="the same key in every container",
        )

    def start(self) -> tuple[Process, str]:
        """Start another container, wait until it answers, and return it with its address."""
        port = str(free_port())
        child = self.stack.enter_context(process(["-m", "webapp", "all"], {**self.variables, "PORT": port}))
        self.containers.append(child)
        self.stack.callback(lambda: signal_all(tree_of(child), signal.SIGKILL))
        address = f"http://127.0.0.1:{port}"
        factories.wait_until(lambda: answers(f"{address}/readyz"), within=60, every=0.1, what=lambda: child.log)
        return child, address


def tree_of(container: Process) -> list[psutil.Process]:
    """Return every process of the container, the first process last."""
    try:
        first = psutil.Process(container.popen.pid)
        return [*first.children(recursive=True), first]
    except psutil.NoSuchProcess:
        return []


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    for one in processes:
        try:
            one.send_signal(number)
        except psutil.NoSuchProcess:
            continue


@pytest.fixture
def small_redis(own_redis: Server) -> str:
    with redis.Redis.from_url(own_redis.address) as connection:
        connection.config_set("maxclients", SMALLEST_PLAN)
    return own_redis.address


@pytest.fixture
def plan(addresses: dict[str, str], small_redis: str, database: Database) -> Iterator[tuple[Plan, FakeProvider]]:
    with ExitStack() as stack:
        small = stack.enter_context(factories.role_with_few_connections(addresses, SMALLEST_PLAN))
        fake = stack.enter_context(FakeProvider())
        fake.script([{"mode": "ok", "delay": 0.4}, {"mode": "ok", "delay": 1.2}, {"mode": "ok", "delay": 0.1}] * 400)
        yield Plan(stack, {**small, "REDIS_URL": small_redis}, fake), fake


class PeakConnections:
    """Measures the maximum of connections that the containers hold at the same time."""

    def __init__(self, database: Database, redis_address: str) -> None:
        self.in_postgresql = self.in_redis = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(database, redis_address))
        self._thread.start()

    def _look(self, database: Database, redis_address: str) -> None:
        with redis.Redis.from_url(redis_address) as connection:
            while not self._ended.wait(0.05):
                with database.transaction() as session:
                    connections = factories.count(
                        session, "pg_stat_activity WHERE datname = current_database() AND usename LIKE 'few_%'"
                    )
                self.in_postgresql = max(self.in_postgresql, connections)
                self.in_redis = max(self.in_redis, len(connection.client_list()) - 1)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


class SignedIn:
    """Acts as a browser with the page of a job open."""

    def __init__(self, address: str) -> None:
        self._cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        token = proof_in(self.read(f"{address}/register"))
        self.email = f"{uuid.uuid4().hex[:12]}@example.org"
        form = {"csrf_token": token, "email": self.email, "password": "a harbour at night"}
        self.read(f"{address}/register", urllib.parse.urlencode(form).encode())

    def read(self, address: str, body: bytes | None = None) -> str:
        with self._cookies.open(address, body, timeout=10) as answer:
            assert answer.url == address or body, f"led away to {answer.url}"
            return answer.read().decode()


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(240)
def test_a_small_site_that_is_stopped_and_started_under_load_loses_nothing(
    plan: tuple[Plan, FakeProvider], database: Database, account_id: uuid.UUID, small_redis: str
) -> None:
    small, fake = plan
    with database.transaction() as session:
        token = api_tokens.make_token(session, account_id, "crowd")
    first, address = small.start()
    person = SignedIn(address)
    crowd = Crowd(token, address)
    peak = PeakConnections(database, small_redis)
    small.stack.callback(peak.stop)
    small.stack.callback(crowd.go_home)

    # As some hosts do: signal every process at once, signal again, and kill what is left after the grace.
    factories.wait_until(lambda: len(crowd.accepted) >= 6 and fake.in_flight, within=40)
    signalled = tree_of(first)
    signal_all(signalled, signal.SIGTERM)
    signal_all(signalled, signal.SIGTERM)
    assert first.wait(within=GRACE_SECONDS + 20) == 0, first.log
    factories.wait_until(lambda: not any(map(is_alive, signalled)), what="the end of all its processes")

    # As other hosts deploy: the new container answers before the old one is stopped, here without any grace.
    second, address = small.start()
    crowd.address = address
    before = len(crowd.accepted)
    factories.wait_until(lambda: len(crowd.accepted) >= before + 5, within=40)
    third, crowd.address = small.start()
    before = len(crowd.accepted)
    factories.wait_until(lambda: len(crowd.accepted) >= before + 5 and fake.in_flight, within=40)
    assert person.email in person.read(f"{crowd.address}/account")
    signalled = tree_of(second)
    signal_all(signalled, signal.SIGTERM)
    signal_all(signalled, signal.SIGKILL)
    second.wait()

    # The web process of the last container dies: running work is finished, and the exit code makes the host restart it.
    factories.wait_until(lambda: len(crowd.accepted) >= before + 10, within=40)
    crowd.go_home()
    everything_ended(database, third)
    fake.script([{"mode": "gate"}])
    with database.transaction() as session:
        last = factories.submit(session, account_id, b"The last document of the day.").job_id
    factories.wait_until(lambda: fake.in_flight == 1)
    [web] = [one for one in psutil.Process(third.popen.pid).children() if "gunicorn" in " ".join(one.cmdline())]
    web.kill()
    third.wait_for_log("web ended with -9")
    fake.release()
    assert third.wait() == 1, third.log
    peak.stop()

    with database.transaction() as session:
        assert factories.state_of(session, last) is State.SUCCEEDED
        broken = violations(session, accepted=[*crowd.accepted, last], requests=fake.requests, bound=20)
        states = session.execute(text("SELECT DISTINCT state FROM jobs")).scalars().all()
    assert broken == []
    assert states == ["succeeded"]
    assert crowd.refusals == []
    # The numbers in docs/deploy.md for a web process and a worker, twice during a deploy.
    assert 8 < peak.in_postgresql <= 2 * (4 + 5) < SMALLEST_PLAN
    assert 7 < peak.in_redis <= 2 * (2 + 5) < SMALLEST_PLAN
    for container in (first, second, third):
        assert "too many connections" not in container.log and "max number of clients" not in container.log


def is_alive(process: psutil.Process) -> bool:
    """Return True if the process runs. A zombie, which has ended but was not reaped yet, does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def everything_ended(database: Database, container: Process) -> None:
    def ended() -> bool:
        with database.transaction() as session:
            return factories.count(session, "jobs WHERE finished_at IS NULL") == 0

    factories.wait_until(ended, within=40, every=0.1, what=lambda: container.log[-3000:])
