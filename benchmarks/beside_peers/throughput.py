"""Measures throughput: submits a second with the worker stopped, then jobs a second with an AI that answers at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.beside_peers.counters import Counters, Work, transactions
from benchmarks.beside_peers.documents import document, marks
from benchmarks.beside_peers.http_client import Sent, send_all
from benchmarks.beside_peers.order import measure_each
from benchmarks.beside_peers.peer import Peer
from benchmarks.beside_peers.results import Part, percentile
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System
from benchmarks.beside_peers.waybill import Waybill

SPAN = """
SELECT extract(epoch FROM min(finished_at))::float8, extract(epoch FROM max(finished_at))::float8, count(*)
FROM {jobs} AND state = 'succeeded' AND created_at > to_timestamp({since})
"""
PATIENCE_SECONDS = 180


class Throughput:
    """Two tables: what a submit costs, and what a job costs in the worker."""

    def __init__(self, jobs: int, counted: int) -> None:
        self.jobs, self.counted = jobs, counted
        self.submit = Part("Submit: 8 clients, one web process, the worker stopped")
        self.work = Part(f"Work: {jobs} jobs that wait, 16 at once, the AI answers at once")

    def measure_one(self, system: System) -> None:
        """Count with the statements logged, then measure without."""
        system.servers.ai("/_set", delay=0, reset=True)
        system.prepare()
        with system.start_web() as web:
            with system.servers.logged_statements():
                counters = Counters(system.servers, system.database)
                submit_all(system, self.counted)
                submitted = counters.read()
                worked = self._count_work(system)
            since, before = time.time(), web.cpu
            counters = Counters(system.servers, system.database)
            sent = submit_all(system, self.jobs)
            web_cpu, timed = web.cpu - before, counters.read()
        self.submit.add(
            system.name,
            {
                "submits a second": self.jobs / sent.seconds,
                "p50, ms": 1000 * percentile(sent.took, 50),
                "p95, ms": 1000 * percentile(sent.took, 95),
                "web CPU, ms": 1000 * web_cpu / self.jobs,
                **each(timed, submitted, self.jobs, self.counted),
            },
            statements=per_job(submitted, self.counted),
            redis_commands=submitted.by_command,
        )
        self._measure_work(system, since, worked)

    def _count_work(self, system: System) -> Work:
        """Return what the counted jobs need in the worker, its start included."""
        counters = Counters(system.servers, system.database)
        with system.start_worker() as worker:
            system.wait_until_done(self.counted, PATIENCE_SECONDS)
            work = counters.read()
            worker.stop()
        return work

    def _measure_work(self, system: System, since: float, counted: Work) -> None:
        """Measure from the first job on, so that the worker's start is left out."""
        system.servers.ai("/_set", reset=True)
        ended, counters = transactions(system.servers, system.database), Counters(system.servers, system.database)
        with system.start_worker() as worker:
            asked = system.wait_until_done(self.counted + 1, PATIENCE_SECONDS)
            cpu, first_at = worker.cpu, time.time()
            already = system.servers.ai("/_stats")["requests"]
            asked += system.wait_until_done(self.counted + self.jobs, PATIENCE_SECONDS)
            cpu, timed = worker.cpu - cpu, counters.read()
            worker.stop()
        ended = transactions(system.servers, system.database) - ended - asked
        statement = SPAN.format(jobs=system.jobs, since=since)
        [(first, last, done)] = system.servers.rows(system.database, statement)
        requests = system.servers.ai("/_stats")["requests"]
        self.work.add(
            system.name,
            {
                "jobs a second": (done - 1) / (last - first),
                "worker CPU, ms": 1000 * cpu / max(1, requests - already),
                **each(timed, counted, self.jobs, self.counted),
                "transactions": ended / self.jobs,
                "first job after the start, s": first_at - worker.began,
            },
            requests=requests,
            statements=per_job(counted, self.counted),
            redis_commands=counted.by_command,
        )


def measure(servers: Servers, peers: Sequence[str], jobs: int = 500, counted: int = 200) -> dict[str, Part]:
    """Measure Waybill and the peers."""
    throughput = Throughput(jobs, counted)
    measure_each(Waybill(servers), [Peer(servers, name) for name in peers], throughput.measure_one)
    return {"submit": throughput.submit, "work": throughput.work}


def submit_all(system: System, jobs: int) -> Sent:
    """Submit jobs with eight clients. Raises RuntimeError if one is refused."""
    sent = send_all(system.port, [system.submission(mark, document(mark)) for mark in marks(jobs)])
    if not set(sent.statuses) <= {201, 202}:
        raise RuntimeError(f"{system.name} responded with {dict(sent.statuses)}")
    return sent


def each(timed: Work, counted: Work, jobs: int, counted_jobs: int) -> dict[str, float]:
    """Return the figures for one job: CPU from the timed run, counts from the one whose statements were logged."""
    return {
        "PostgreSQL CPU, ms": 1000 * timed.postgresql_cpu / jobs,
        "Redis CPU, ms": 1000 * timed.redis_cpu / jobs,
        "statements": counted.statements / counted_jobs,
        "with BEGIN and COMMIT": counted.round_trips / counted_jobs,
        "commits in the WAL": counted.commits / counted_jobs,
        "Redis commands": counted.redis_commands / counted_jobs,
    }


def per_job(work: Work, jobs: int) -> list[tuple[float, str]]:
    """Return how often each statement was sent for a job, the most frequent first."""
    return [(round(count / jobs, 3), text) for text, count in work.by_text.most_common(80)]
