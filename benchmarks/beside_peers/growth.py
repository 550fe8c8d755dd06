"""Measures growth: submits, work and pages with few, 100,000 and a million finished jobs in the tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import structlog
from sqlalchemy import create_engine, text

from benchmarks import history, pages
from benchmarks.beside_peers.results import Part, load
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.throughput import Throughput
from benchmarks.beside_peers.waybill import Waybill

FEW = 1_000
SIZES = 3
JOBS, COUNTED = 200, 100
UNFINISHED = "DELETE FROM jobs WHERE state IN ('queued', 'running', 'retry_wait', 'cancel_requested')"


class Grown(Waybill):
    """Waybill with years of history. Its database is used where it was filled, for it takes long to copy."""

    def __init__(self, servers: Servers, history_jobs: int) -> None:
        super().__init__(servers)
        self.name, self.database, self._history_jobs = f"{history_jobs:,} jobs", f"history_{history_jobs}", history_jobs
        self.measured: list[pages.Measured] = []

    def prepare(self) -> None:
        """Fill the database, measure its pages, and leave only the finished jobs."""
        self.servers.redis.flushall()
        self.servers.copy_database(self.database)
        self.make()
        settings = self.site_settings
        engine = create_engine(settings.sqlalchemy_url)
        with engine.begin() as connection:
            history.write(connection, jobs=self._history_jobs, queue=settings.queue_name)
        self._vacuum()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        self.measured = pages.measure(settings)
        with engine.begin() as connection:
            for statement in (UNFINISHED, "DELETE FROM lanes", "DELETE FROM workers"):
                connection.execute(text(statement))
        engine.dispose()
        self._vacuum()
        [(now,)] = self.servers.rows(self.database, "SELECT now()")
        self.jobs = f"{Waybill.jobs} AND created_at > '{now}'"  # the account owns some of the history, too

    def _vacuum(self) -> None:
        with self.servers.connect(self.database) as connection:
            connection.execute("VACUUM ANALYZE")


def measure(servers: Servers, peers: Sequence[str], jobs: int = 1_000_000) -> dict[str, Part]:
    """Measure with so many jobs, with a tenth of them, and with few."""
    throughput = Throughput(JOBS, COUNTED)
    throughput.submit = Part("Growth: submit", compares=False)
    throughput.work = Part("Growth: work", compares=False)
    looked = Part("Growth: the middle of 15 tries of each page and query, in ms", compares=False)
    found: dict[str, dict[str, float]] = {}
    for size in (FEW, jobs // 10, jobs):
        site, began = Grown(servers, size), time.monotonic()
        throughput.measure_one(site)
        for one in site.measured:
            found.setdefault(one.name, {})[site.name] = 1000 * one.median
        print(f"{site.name}: {time.monotonic() - began:.0f} s, load average {load():.1f}", flush=True)
        with servers.connect() as connection:
            connection.execute(f'DROP DATABASE "{site.database}" WITH (FORCE)')
    for name, figures in found.items():
        if len(figures) == SIZES:  # a list may be too short to have a page deep in it
            first, _, last = figures.values()
            looked.add(name, {**figures, "last ÷ first": last / first})
    return {"growth submit": throughput.submit, "growth work": throughput.work, "growth pages": looked}
