"""Measures a site with nothing to do: statements, Redis commands, CPU, memory, threads, connections, start-up."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.beside_peers.counters import Counters
from benchmarks.beside_peers.documents import marks
from benchmarks.beside_peers.http_client import Client
from benchmarks.beside_peers.order import measure_each
from benchmarks.beside_peers.peer import Peer
from benchmarks.beside_peers.pickup import submit_each
from benchmarks.beside_peers.results import Part
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System
from benchmarks.beside_peers.waybill import Waybill

SETTLE_SECONDS = 3


def measure(servers: Servers, peers: Sequence[str], seconds: int = 30) -> dict[str, Part]:
    """Measure each system after one job, peers for a third of the time."""
    part = Part("Idle: web and worker after one job, a minute")
    measure_each(
        Waybill(servers), [Peer(servers, name) for name in peers], lambda system: measure_one(system, part, seconds)
    )
    return {"idle": part}


def measure_one(system: System, part: Part, seconds: float) -> None:
    system.servers.ai("/_set", delay=0, reset=True)
    system.prepare()
    with system.start_web() as web:
        with Client(system.port) as client:
            submit_each(system, client, marks(1), 0)
        with system.start_worker() as worker:
            system.wait_until_done(1, 60)
            first = system.servers.ai("/_stats")["first"] - worker.began
            time.sleep(SETTLE_SECONDS)
            with system.servers.logged_statements():
                counters, worker_cpu, web_cpu = Counters(system.servers, system.database), worker.cpu, web.cpu
                time.sleep(seconds if isinstance(system, Waybill) else seconds / 3)
                worker_cpu, web_cpu, work = worker.cpu - worker_cpu, web.cpu - web_cpu, counters.read()
            ours, theirs = web.memory, worker.memory
            postgresql, redis = connections(system)
            a_minute = 60 / work.seconds
            part.add(
                system.name,
                {
                    "statements": work.statements * a_minute,
                    "commits in the WAL": work.commits * a_minute,
                    "Redis commands": work.redis_commands * a_minute,
                    "worker CPU, %": 100 * worker_cpu / work.seconds,
                    "web CPU, %": 100 * web_cpu / work.seconds,
                    "PostgreSQL CPU, %": 100 * work.postgresql_cpu / work.seconds,
                    "web PSS, MB": ours.pss,
                    "worker PSS, MB": theirs.pss,
                    "threads": ours.threads + theirs.threads,
                    "processes": ours.processes + theirs.processes,
                    "PostgreSQL connections": postgresql,
                    "Redis connections": redis,
                    "web ready, s": web.ready_after,
                    "first request at the AI after the worker's start, s": first,
                },
                statements=work.by_text.most_common(60),
                redis_commands=work.by_command,
            )


def connections(system: System) -> tuple[int, int]:
    """Return the connections to the system's database, and those to Redis, without the benchmark's own."""
    statement = (
        f"SELECT count(*) FROM pg_stat_activity WHERE application_name <> 'benchmark' AND datname = '{system.database}'"
    )
    clients = system.servers.redis.info("clients")["connected_clients"]
    return int(system.servers.rows("postgres", statement)[0][0]), int(clients) - 1
