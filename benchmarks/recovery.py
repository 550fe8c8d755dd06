"""python -m benchmarks.recovery [--kills N] [--jobs N]

Runs a site with two workers and default settings. Kills one of them, with its child processes, while both wait for the
AI service, and measures how long it takes until the service sees each of the killed worker's requests again. Exits 1 if
one request in twenty takes more than five seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs.accept import Intent, NewDocument, accept_job
from tasks.settings import Settings
from webapp.local.services import services, temporary_directory
from webapp.models import Account

GOAL_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
STEADY_SECONDS = 10.0
"""Claims are taken back only when a worker's heartbeats have arrived for a while, as on any running site."""


class Site:
    """A site with two workers, of which one is killed again and again."""

    def __init__(self, fake: FakeProvider, database: Database, settings: Settings, log: Path) -> None:
        self.fake, self.database, self.settings, self._log = fake, database, settings, log
        self.account_id = uuid.uuid4()
        with database.transaction() as session:
            session.add(Account(id=self.account_id, email="reader@example.org", password_hash="none"))

    def worker(self, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "tasks", "worker"]
            return subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)

    def alive(self) -> int:
        with self.database.transaction() as session:
            statement = "SELECT count(*) FROM workers WHERE left_at IS NULL AND seen_at > now() - interval '3 seconds'"
            return int(session.execute(text(statement)).scalar_one())

    def submit(self, jobs: int, round_: int) -> dict[str, uuid.UUID]:
        """Submit documents that differ in one mark, and return the jobs by their marks."""
        found = {}
        for number in range(jobs):
            mark = f"mark-{round_}-{number}-end"
            intent = Intent(self.account_id, mark, "summary", 1, {"length": "short", "form": "prose"})
            document = NewDocument(f"The harbour committee met. {mark}".encode(), "text", None)
            with self.database.transaction() as session:
                found[mark] = accept_job(session, intent, document, self.settings.terms).job_id
        return found

    def held_by(self, pid: int) -> set[uuid.UUID]:
        with self.database.transaction() as session:
            statement = text("SELECT id FROM jobs WHERE claimed_by LIKE '%-' || :pid || '-%'")
            return set(session.execute(statement, {"pid": pid}).scalars())

    def requests(self, mark: str) -> list[float]:
        """Return when the AI service saw the requests for a document."""
        return [seen.at for seen in list(self.fake.requests) if mark.encode() in seen.body]


def until(fact: object, *, what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not fact():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit(f"not within {PATIENCE_SECONDS:.0f} s: {what}")
        time.sleep(0.02)


@contextmanager
def running() -> Iterator[tuple[Site, dict[str, str]]]:
    """Run services, a scripted AI service, and the ledger of one account."""
    with (
        temporary_directory() as directory,
        services(Path(directory), throwaway=True) as addresses,
        FakeProvider() as fake,
    ):
        provider = {"AI_PROVIDER": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": fake.base_url}
        ours = {
            "WAYBILL_DEMO": "1",
            "PROXY_HOPS": "0",
            "JOBS_PER_DAY": "0",
            "JOBS_AT_ONCE": "0",
            **provider,
            **addresses,
        }
        variables = {**os.environ, **ours}
        subprocess.run([sys.executable, "-m", "flask", "--app", "wsgi", "db", "upgrade"], env=variables, check=True)
        settings = Settings(**{name.lower(): value for name, value in ours.items()})
        with Database(settings, "waybill-benchmark") as database:
            yield Site(fake, database, settings, Path(directory) / "worker.log"), variables


def measure(site: Site, variables: dict[str, str], kills: int, jobs: int) -> list[float]:
    """Return the seconds from each kill until each of the lost requests was seen again."""
    took: list[float] = []
    stays, dies = site.worker(variables), site.worker(variables)
    try:
        until(lambda: site.alive() == 2, what="two workers")
        time.sleep(STEADY_SECONDS)
        for round_ in range(kills):
            gate = f"round {round_}"
            site.fake.script([{"mode": "gate", "name": gate}])
            marks = site.submit(jobs, round_)
            until(lambda marks=marks: all(site.requests(mark) for mark in marks), what="all requests")
            held = site.held_by(dies.pid)
            lost = [mark for mark, job_id in marks.items() if job_id in held]
            killed_at = time.time()
            os.killpg(dies.pid, signal.SIGKILL)
            dies.wait()
            until(lambda lost=lost: all(len(site.requests(mark)) > 1 for mark in lost), what="the repeated requests")
            took += [site.requests(mark)[1] - killed_at for mark in lost]
            dies = site.worker(variables)
            site.fake.release(gate)
            until(lambda: site.alive() == 2, what="the worker again")
            until(lambda: not site.held_by(stays.pid), what="the end of the round")
            print(f"kill {round_ + 1}: {len(lost)} calls, the last seen again after {took[-1]:.1f} s", file=sys.stderr)
    finally:
        for process in (stays, dies):
            process.terminate()
            process.wait()
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=16, help="in flight at both workers together")
    given = parser.parse_args()
    with running() as (site, variables):
        took = measure(site, variables, given.kills, given.jobs)
    percentiles = quantiles(took, n=100)
    p50, p90, p95 = (percentiles[percent - 1] for percent in (50, 90, 95))
    machine = (
        f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    )
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, load average {os.getloadavg()[0]:.1f}\n")
    print("| kills | lost calls | p50 | p90 | p95 | longest |")
    print("|---|---|---|---|---|---|")
    print(f"| {given.kills} | {len(took)} | {p50:.1f} s | {p90:.1f} s | {p95:.1f} s | {max(took):.1f} s |")
    return 0 if p95 <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
