"""Measures the pick-up: from the commit of a submit until the AI service has the request, with an idle worker."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.beside_peers.counters import Counters
from benchmarks.beside_peers.documents import document, marks
from benchmarks.beside_peers.http_client import Client, Response
from benchmarks.beside_peers.order import measure_each
from benchmarks.beside_peers.peer import Peer
from benchmarks.beside_peers.results import Part, percentile
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System
from benchmarks.beside_peers.waybill import Waybill

WARM_UP = 5
PAUSE_SECONDS = 0.1
SETTLE_SECONDS = 1.0


def measure(servers: Servers, peers: Sequence[str], jobs: int = 60, counted: int = 20) -> dict[str, Part]:
    """Measure so many jobs one at a time, and count what some more of them need."""
    part = Part("Pick-up: an idle worker, one job at a time")
    measure_each(
        Waybill(servers),
        [Peer(servers, name) for name in peers],
        lambda system: measure_one(system, part, jobs, counted),
    )
    return {"pickup": part}


def measure_one(system: System, part: Part, jobs: int, counted: int) -> None:
    system.servers.ai("/_set", delay=0, reset=True)
    system.prepare()
    with system.starting_web() as web, system.start_worker(), Client(system.port) as client:
        web.wait_until(system.responds)
        submit_each(system, client, marks(WARM_UP), 0)
        system.wait_until_done(WARM_UP, 60)
        time.sleep(SETTLE_SECONDS)
        names = marks(jobs)
        sent = submit_each(system, client, names, PAUSE_SECONDS)
        system.wait_until_done(WARM_UP + jobs, 60)
        committed = system.committed_at({mark: response for mark, (_, _, response) in sent.items()})
        arrived = dict(system.servers.ai("/_log"))
        with system.servers.logged_statements():
            counters = Counters(system.servers, system.database)
            for number, mark in enumerate(marks(counted), 1):
                submit_each(system, client, [mark], 0)
                system.wait_until_done(WARM_UP + jobs + number, 60)
            work = counters.read()
    pick_up = [1000 * (arrived[mark] - committed[mark]) for mark in names]
    responded = [1000 * (arrived[mark] - ended) for mark, (_, ended, _) in sent.items()]
    submits = [1000 * (ended - began) for began, ended, _ in sent.values()]
    part.add(
        system.name,
        {
            "commit → AI p50, ms": percentile(pick_up, 50),
            "commit → AI p95, ms": percentile(pick_up, 95),
            "response → AI p50, ms": percentile(responded, 50),
            "submit p50, ms": percentile(submits, 50),
            "submit p95, ms": percentile(submits, 95),
            "statements, submit": work.statements_of_web / counted,
            "statements, worker": (work.statements - work.statements_of_web) / counted,
            "commits in the WAL": work.commits / counted,
            "Redis commands": work.redis_commands / counted,
        },
        statements=work.by_text.most_common(60),
        applications=work.by_application,
        redis_commands=work.by_command,
    )


def submit_each(
    system: System, client: Client, names: Sequence[str], pause: float
) -> dict[str, tuple[float, float, Response]]:
    """Submit documents, and return the begin, the end and the response of each. Raises RuntimeError."""
    sent = {}
    for mark in names:
        began = time.time()
        response = client.send(system.submission(mark, document(mark)))
        sent[mark] = (began, time.time(), response)
        if response.status not in (201, 202):
            raise RuntimeError(f"{response.status}: {response.body[:500]!r}")
        time.sleep(pause)
    return sent
