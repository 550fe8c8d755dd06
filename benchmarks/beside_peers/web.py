"""Measures Waybill's pages, polls and submits with 8 clients, then hundreds of pages that poll at their own pace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from benchmarks.beside_peers.browser import FORM, LIST_POLL, Browser, next_poll
from benchmarks.beside_peers.counters import Counters
from benchmarks.beside_peers.documents import document, marks
from benchmarks.beside_peers.http_client import Client, Request, send_all
from benchmarks.beside_peers.pollers import poll_all
from benchmarks.beside_peers.processes import Running
from benchmarks.beside_peers.results import Part, percentile
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.throughput import submit_all
from benchmarks.beside_peers.waybill import LONG_CALLS, Waybill

JOBS, SLOTS, COUNTED = 200, 64, 40
POLLING = ((200, 2.0), (1000, 5.0), (1000, 2.0))
"""The number of pages, and the seconds between two polls of each: 2 s in the first minute of a job, then 5 s."""
POLLING_SECONDS = 12

Case = Callable[[str], Request]


def measure(servers: Servers, peers: Sequence[str], seconds: int = 3) -> dict[str, Part]:
    """Measure each case for so many seconds. There is nothing to compare at the peers, which have no pages."""
    requests = Part("Web: one process, 8 clients, 64 jobs running and 136 queued", compares=False)
    polling = Part("Pages that poll", compares=False)
    servers.ai("/_set", delay=600, reset=True)
    site = Waybill(servers, SLOTS, **LONG_CALLS)
    site.prepare()
    with site.start_web() as web, site.start_worker():
        submit_all(site, JOBS)
        end = time.time() + 60
        while servers.ai("/_stats")["waiting"] < SLOTS and time.time() < end:
            time.sleep(0.1)
        browser = Browser(site.port)
        for name, case in cases(site, browser):
            measure_case(site, web, requests, name, case, seconds)
        for pages, every in POLLING:
            measure_polling(site, web, polling, browser, pages, every)
    return {"web": requests, "polling": polling}


def job_in(site: Waybill, state: str) -> str:
    """Return the last job in a state."""
    statement = f"SELECT id FROM jobs WHERE state = '{state}' ORDER BY created_at DESC LIMIT 1"
    return str(site.servers.rows(site.database, statement)[0][0])


def cases(site: Waybill, browser: Browser) -> Iterator[tuple[str, Case]]:
    """Yield each kind of request by its name; a mark makes it a new one."""
    running, queued = job_in(site, "running"), job_in(site, "queued")
    for state, job in (("running", running), ("queued", queued)):
        poll = next_poll(browser.get(f"/jobs/{job}").body) or ""
        yield f"status poll, {state}, unchanged", same(Request("GET", poll, None, browser.headers))
        changed = re.sub(r"rev=\d+", "rev=0", poll)
        yield f"status poll, {state}, changed", same(Request("GET", changed, None, browser.headers))
    home = browser.get("/")
    mine, token = next_poll(home.body, LIST_POLL), browser.token(home)
    cookie = {"Cookie": browser.headers["Cookie"]}
    yield "job page, running", same(Request("GET", f"/jobs/{running}", None, cookie))
    yield "home page", same(Request("GET", "/", None, cookie))
    if mine:
        yield "list poll, unchanged", same(Request("GET", mine, None, browser.headers))
    yield "list poll, changed", same(Request("GET", "/jobs/mine?mark=x", None, browser.headers))
    yield "submit on the page", lambda mark: pasted(mark, token, cookie)
    yield "API, submit", lambda mark: site.submission(mark, document(mark))
    yield "API, one job", same(Request("GET", f"/api/v1/jobs/{running}", None, site.headers))
    yield "API, list", same(Request("GET", "/api/v1/jobs", None, site.headers))
    yield "healthz", same(Request("GET", "/healthz"))
    yield "readyz", same(Request("GET", "/readyz"))


def same(request: Request) -> Case:
    """Return a case that sends the same request each time."""
    return lambda _: request


def pasted(mark: str, token: str, cookie: dict[str, str]) -> Request:
    """Return the submit of a pasted text."""
    form = {"csrf_token": token, "idempotency_key": mark, "workflow": "summary", "text": document(mark)}
    return Request("POST", "/jobs", urlencode(form).encode(), {**cookie, "Content-Type": FORM})


def measure_case(site: Waybill, web: Running, part: Part, name: str, case: Case, seconds: float) -> None:
    """Count some requests with the statements logged, then measure without."""
    with Client(site.port) as client, site.servers.logged_statements():
        body = client.send(case(marks(1)[0])).body
        counters = Counters(site.servers, site.database)
        for mark in marks(COUNTED):
            client.send(case(mark))
        work = counters.read()
    counters, before, end = Counters(site.servers, site.database), web.cpu, time.time() + seconds

    def requests() -> Iterator[Request]:
        for mark in marks(100_000):
            if time.time() > end:
                return
            yield case(mark)

    sent = send_all(site.port, requests())
    cpu, timed, count = web.cpu - before, counters.read(), len(sent.took)
    part.add(
        name,
        {
            "a second": count / sent.seconds,
            "p50, ms": 1000 * percentile(sent.took, 50),
            "p95, ms": 1000 * percentile(sent.took, 95),
            "web CPU, ms": 1000 * cpu / count,
            "a second on one core": count / cpu if cpu else 0,
            "PostgreSQL CPU, ms": 1000 * timed.postgresql_cpu / count,
            "statements": work.statements_of_web / COUNTED,
            "bytes": len(body),
        },
        statuses=sent.statuses,
        statements=work.by_text.most_common(40),
        applications=work.by_application,
    )


def measure_polling(site: Waybill, web: Running, part: Part, browser: Browser, pages: int, every: float) -> None:
    """Open pages of waiting and running jobs, and let them poll."""
    rows = site.servers.rows(site.database, f"SELECT id FROM jobs ORDER BY created_at LIMIT {JOBS}")
    paths = [next_poll(browser.get(f"/jobs/{job}").body) for (job,) in rows]
    known, before = [path for path in paths if path], web.cpu
    sent = poll_all(site.port, known, browser.headers, pages=pages, every=every, seconds=POLLING_SECONDS)
    part.add(
        f"{pages:,} pages, every {every:.0f} s",
        {
            "polls a second": len(sent.took) / sent.seconds,
            "of": pages / every,
            "p50, ms": 1000 * percentile(sent.took, 50),
            "p95, ms": 1000 * percentile(sent.took, 95),
            "p99, ms": 1000 * percentile(sent.took, 99),
            "cut off": sent.cut_off,
            "web CPU, %": 100 * (web.cpu - before) / sent.seconds,
        },
        statuses=sent.statuses,
    )
