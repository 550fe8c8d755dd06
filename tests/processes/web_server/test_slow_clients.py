"""Slow clients: eight clients that sent half a request once kept all eight threads, and nobody could use the site.

Here a hundred do it, in each of six ways, while other users load pages. `python -m benchmarks.slow_clients` measures
how fast these pages are; here they only have to load.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from benchmarks.slow_clients import EMAIL, PAGES, PASSWORD, Site, ready, visit
from benchmarks.slow_sockets import Attack, Attackers
from tasks.database import Database
from tests.support import factories
from tests.support.processes.processes import answers, process
from tests.support.processes.web_server import QUICK, Line, serving
from webapp.auth import passwords
from webapp.local.ports import free_port
from webapp.models import Account

SOCKETS, SECONDS = 100, 4.0
ENDED_BY = {
    Attack.HALF_HEAD: {"408"},
    Attack.HALF_BODY: {"408"},
    Attack.DRIPPING_HEAD: {"408"},
    Attack.DRIPPING_BODY: {"408"},
    Attack.SLOW_READING: {"reset", "200, cut off"},
    Attack.SILENT: {"closed"},
}


@contextmanager
def site_with(addresses: dict[str, str], *arguments: str) -> Iterator[Site]:
    """Yield a site with short deadlines, and a user who has handed in 2 MB."""
    settings, port = factories.settings(addresses), free_port()
    factories.empty_redis(addresses["REDIS_URL"])
    with Database(settings, "waybill-test") as database, database.transaction() as session:
        factories.empty(session)
        session.add(Account(email=EMAIL, password_hash=passwords.hash_password(PASSWORD)))
    variables = factories.environment(
        addresses, HOST="127.0.0.1", PORT=str(port), PROXY_HOPS="0", LIMITS=json.dumps(QUICK)
    )
    with process(
        ["-m", "gunicorn", "-c", "tests/support/processes/impatient_gunicorn.py", *arguments, "wsgi:app"], variables
    ) as web:
        factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=60, what=lambda: web.log)
        yield ready(Site(port, web.popen))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def site(addresses: dict[str, str]) -> Iterator[Site]:
    with site_with(addresses) as found:
        yield found


def attack(site: Site, kind: Attack, seconds: float) -> tuple[Attackers, threading.Thread]:
    attackers = Attackers(kind, site.port, site.download if kind is Attack.SLOW_READING else "/login", site.cookie)
    thread = threading.Thread(target=lambda: asyncio.run(attackers.run(SOCKETS, seconds)))
    thread.start()
    return attackers, thread


@pytest.mark.parametrize("kind", Attack)
def test_other_people_are_answered_and_slow_clients_are_not_kept(site: Site, kind: Attack) -> None:
    attackers, thread = attack(site, kind, SECONDS)
    came = []
    while thread.is_alive():
        came += [visit(site.port, path) is not None for path in PAGES]
    assert came and all(came)
    assert ENDED_BY[kind] & set(attackers.endings), attackers.endings
    assert set(attackers.endings) <= {*ENDED_BY[kind], "reset", "open at the end"}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Attack.HALF_HEAD, Attack.HALF_BODY, Attack.DRIPPING_BODY])
def test_with_gunicorns_own_threads_the_same_clients_stop_the_site(addresses: dict[str, str], kind: Attack) -> None:
    """Check the negative control."""
    with site_with(addresses, "--worker-class", "gthread") as site:
        assert visit(site.port, "/healthz") is not None
        _, thread = attack(site, kind, SECONDS)
        stopped = False
        while thread.is_alive() and not stopped:
            stopped = visit(site.port, "/healthz", patience=2.0) is None
        thread.join()
    assert stopped


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: x", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"]
)
def test_an_unfinished_request_gets_a_message_and_is_logged_without_its_text(sent: bytes) -> None:
    with serving() as (port, web):
        with Line(port) as line:
            line.send(sent)
            reply = line.to_the_end()
        assert reply.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in reply
        assert b"Content-Type: text/plain" in reply and reply.endswith(b".\n")
        web.wait_for_log('"event": "request.refused"')
        [logged] = [json.loads(one) for one in web.log.splitlines() if "request.refused" in one]
        assert logged["status"] == 408 and logged["times"] == 1 and logged["why"].startswith("slow ")


def test_a_steady_upload_and_a_steady_reader_may_take_longer_than_a_deadline() -> None:
    with serving(limits={**QUICK, "min_bytes_per_second": 100}) as (port, _), Line(port, SO_RCVBUF=4096) as line:
        line.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n")
        waiting = threading.Event()
        for _ in range(30):
            waiting.wait(0.1)  # sets the pace: three times the deadline in all
            line.send(b"x" * 100)
        assert b"3000 127.0.0.1" in line.answer()


def test_an_answer_that_nobody_reads_keeps_neither_thread_nor_room() -> None:
    """Check with more readers than threads, each of a stream that is generated while it is read."""
    with serving() as (port, web):
        lines = [Line(port, SO_RCVBUF=4096) for _ in range(8)]
        for line in lines:
            line.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        web.wait_for_log("slow reader")
        with Line(port) as line:
            assert line.ask("/").startswith(b"HTTP/1.1 200")
        for line in lines:
            line.__exit__()


def test_bodies_that_are_too_much_together_are_refused_the_slowest_first() -> None:
    limits = {**QUICK, "window_seconds": 30, "max_all_bodies_bytes": 1_000_000}
    unfinished = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b"x" * 300_000
    with serving(limits=limits) as (port, web):
        lines = [Line(port) for _ in range(4)]
        for line in lines:
            line.send(unfinished)
        web.wait_for_log("no room for bodies")
        with Line(port) as late:  # is refused after a second: by then the others have been seen to be slow
            late.send(b"GET / HT")
            assert late.to_the_end().startswith(b"HTTP/1.1 408 ")
        with Line(port) as line:
            line.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 800000\r\n\r\n")
            waiting = threading.Event()
            for _ in range(50):
                line.send(b"y" * 16_000)
                waiting.wait(0.03)  # sets the pace: slower than the others were, but steady
            assert b"800000 127.0.0.1" in line.answer()
        for line in lines:
            reply = line.to_the_end()
            assert reply.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 10" in reply
            line.__exit__()


@pytest.mark.parametrize("sent", [b"", b"GET / HT"], ids=["silent", "half a head"])
def test_more_connections_than_may_be_push_out_those_that_wait_longest(sent: bytes) -> None:
    with serving(limits={**QUICK, "head_seconds": 60, "max_connections": 20}) as (port, web):
        lines = [Line(port) for _ in range(60)]
        for line in lines:
            with suppress(ConnectionError):  # the server may have closed it already
                line.send(sent)
        with Line(port) as line:
            assert line.ask("/").startswith(b"HTTP/1.1 200")
        web.wait_for_log("too many connections")
        for line in lines:
            line.__exit__()
