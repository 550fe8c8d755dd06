"""python -m tests.chaos.run [--jobs N] [--workers N] [--trouble SECONDS]      SEED=… repeats the choices of a run

Hands in jobs while workers, Redis and PostgreSQL are killed, frozen, emptied, filled, locked and restarted, and the AI
service refuses, hangs and drips; then lets things calm down and checks every promise. Everything belongs to the run.
Exit code 1 if a promise was broken, if not all jobs were handed in, or if a kind of trouble did not happen.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import sys
import time
import uuid
from pathlib import Path

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.calls import lanes
from tasks.ledger.jobs import transitions
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tasks.queue.redis_client import connect
from tests.chaos.faults import LEASE_SECONDS, Trouble, behaviours
from tests.chaos.services import Postgres, Redis, Workers, services
from tests.chaos.verdict import Numbers, numbers, percentile, violations
from tests.support import factories
from tests.support.processes.processes import asking
from webapp.local.services import temporary_directory

DEADLINE_SECONDS = 240.0
RESERVATION_SECONDS = 10.0
BUDGETS = {
    "CONNECT_TIMEOUT_SECONDS": 1,
    "PROVIDER_CALL_SECONDS": 4,
    "ATTEMPT_SECONDS": 6,
    "RESERVATION_SECONDS": RESERVATION_SECONDS,
    "RUNTIME_ALLOWANCE_SECONDS": 20,
    "JOB_DEADLINE_SECONDS": DEADLINE_SECONDS,
    "LEASE_SECONDS": LEASE_SECONDS,
    "SWEEP_SECONDS": 0.5,
    "SHUTDOWN_GRACE_SECONDS": 2,
    "MAX_ATTEMPTS": 5,
    "MAX_INTERRUPTIONS": 10,
}
CALM_WITHIN_SECONDS = 90.0  # a message that is lost repeatedly is sent again after 80 s at the latest
ALL_KINDS_SECONDS = 60.0  # in a run of this length every kind of trouble must have happened
OPERATOR_LOOKS_EVERY_SECONDS = 1.0
UNATTENDED_SECONDS = 6.0  # the start of a new worker, while no other one can sweep


class Crowd:
    """Hands in jobs and cancels a few. Tries again while the database is away, as users do."""

    def __init__(self, seed: str, database: Database, dispatcher: Dispatcher, account_id: uuid.UUID) -> None:
        self._draw = random.Random(f"{seed} crowd")
        self._database = database
        self._dispatcher = dispatcher
        self._account_id = account_id
        self.accepted: list[uuid.UUID] = []
        self.cancels = self.resumed = 0
        self._operator_looks_at = 0.0

    def hand_in(self) -> None:
        """Hand in a job.

        Repeats it after an error: an accepted job whose response was lost must be found, not doubled.
        """
        content = f"Report {len(self.accepted)}. The harbour committee met. The pier is closed until August.".encode()
        try:
            with self._database.transaction() as session:
                job_id = factories.submit(
                    session, self._account_id, content, deadline_seconds=DEADLINE_SECONDS, max_attempts=5
                ).job_id
        except SQLAlchemyError:
            return
        self.accepted.append(job_id)
        self._dispatcher.dispatch_now(job_id)
        if self._draw.random() < 0.05:
            self._cancel(self._draw.choice(self.accepted[-20:]))

    def _cancel(self, job_id: uuid.UUID) -> None:
        try:
            with self._database.transaction() as session:
                self.cancels += transitions.cancel(session, job_id, self._account_id) is not None
        except SQLAlchemyError:
            return

    def resume_a_stopped_lane(self) -> None:
        """Open the lane some seconds after a refused key has stopped it, as an operator does."""
        if time.monotonic() < self._operator_looks_at:
            return
        self._operator_looks_at = time.monotonic() + OPERATOR_LOOKS_EVERY_SECONDS
        with contextlib.suppress(SQLAlchemyError), self._database.transaction() as session:
            stopped = "SELECT name FROM lanes WHERE state = 'stopped'"
            for name in session.execute(text(stopped)).scalars().all():
                self.resumed += lanes.resume(session, name, by="the operator", spread_seconds=1) is not None

    def unfinished(self) -> int | None:
        """Return how many jobs are unfinished; None while the database is away."""
        try:
            with self._database.transaction() as session:
                return factories.count(session, "jobs WHERE finished_at IS NULL")
        except SQLAlchemyError:
            return None


def main(arguments: list[str] | None = None) -> int:
    """Run once. Returns 0 if every promise was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[2])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--trouble", type=float, default=90, metavar="SECONDS", help="how long things go wrong")
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seed = os.environ.get("SEED") or uuid.uuid4().hex[:8]
    print(f"SEED={seed}  {given.jobs} jobs, {given.workers} workers, {given.trouble:g} s of trouble", flush=True)
    with temporary_directory() as directory, services(Path(directory)) as (postgres, store), FakeProvider() as fake:
        fake.script([*behaviours(seed, given.jobs * 20), {"mode": "ok"}])
        addresses = {"DATABASE_URL": postgres.address, "REDIS_URL": store.address}
        factories.migrate(addresses)
        return play(seed, given, addresses, postgres, store, fake)


def play(
    seed: str,
    given: argparse.Namespace,
    addresses: dict[str, str],
    postgres: Postgres,
    store: Redis,
    fake: FakeProvider,
) -> int:
    """Run on services that are already running."""
    settings = factories.settings(addresses, job_deadline_seconds=DEADLINE_SECONDS)
    database = Database(settings, "waybill-chaos")
    connection = connect(settings, connections=2, answer_within_seconds=0.25)
    with database.transaction() as session:
        account_id = factories.make_account(session)
    crowd = Crowd(seed, database, Dispatcher(database.transaction, DeliveryQueue(settings, connection)), account_id)
    workers = Workers(given.workers, factories.environment(addresses, **asking(fake, **BUDGETS)), slots=8)
    trouble = Trouble(seed, postgres, store, workers)
    try:
        calm_within = make_trouble(given, crowd, workers, trouble)
    finally:
        trouble.end()
        workers.end()
    bound = RESERVATION_SECONDS + UNATTENDED_SECONDS + max(postgres.outages, default=0.0)
    with database.transaction() as session:
        broken = violations(session, accepted=crowd.accepted, requests=fake.requests, bound=bound)
        counted = numbers(session, requests=fake.requests, killed_at=workers.killed_at)
    broken += [f"attempt.unexpected: {line}" for line in workers.said("attempt.unexpected")[:5]]
    if len(crowd.accepted) < given.jobs:
        broken.append(f"only {len(crowd.accepted)} of {given.jobs} jobs were handed in")
    if given.trouble >= ALL_KINDS_SECONDS:
        broken += [f"it did not happen: {kind}" for kind in trouble.missing()]
    if calm_within > CALM_WITHIN_SECONDS:
        broken.append(f"the last job ended {calm_within:.0f} s after the trouble")
    report(counted, trouble, workers, crowd, calm_within)
    print("\n".join(f"BROKEN: {line}" for line in broken) or "every promise was kept", flush=True)
    connection.close()
    database.close()
    return 1 if broken else 0


def make_trouble(given: argparse.Namespace, crowd: Crowd, workers: Workers, trouble: Trouble) -> float:
    """Hand in the jobs over most of the trouble, then wait until all have ended. Returns how long that took."""
    begun = time.monotonic()
    every = given.trouble * 0.9 / given.jobs
    while time.monotonic() < begun + given.trouble:
        if len(crowd.accepted) < min(given.jobs, (time.monotonic() - begun) / every):
            crowd.hand_in()
        workers.replace_ended()
        crowd.resume_a_stopped_lane()
        trouble.step()
        time.sleep(0.01)
    trouble.end()
    calm_since = time.monotonic()
    while time.monotonic() < calm_since + DEADLINE_SECONDS:
        if len(crowd.accepted) < given.jobs:  # those that nobody could hand in while the database was away
            crowd.hand_in()
        elif crowd.unfinished() == 0:
            break
        workers.replace_ended()
        crowd.resume_a_stopped_lane()
        time.sleep(0.1)
    return time.monotonic() - calm_since


def report(counted: Numbers, trouble: Trouble, workers: Workers, crowd: Crowd, calm_within: float) -> None:
    """Print the numbers."""
    crashes = sum(trouble.happened[kind] for kind in ("worker killed", "worker frozen"))
    shares = "  ".join(
        f"p{round(share * 100)} {percentile(counted.recoveries, share):.1f} s" for share in (0.5, 0.9, 0.99, 1.0)
    )
    print("trouble:", ", ".join(f"{kind} {count}" for kind, count in sorted(trouble.happened.items())))
    print("jobs:", counted.states, "causes:", counted.causes, "cancels:", crowd.cancels, "lanes opened:", crowd.resumed)
    print(
        f"provider requests: {counted.requests}, made twice: {counted.asked_again}"
        f" ({counted.asked_again / max(1, crashes):.2f} a worker killed or frozen)"
    )
    print("calls that may have been billed without an answer, by how their attempt ended:", counted.unanswered)
    print(f"recovery of {len(counted.recoveries)} lost attempts: {shares}")
    print(f"longest attempt: {counted.longest_attempt:.1f} s, outages included")
    print(f"all ended {calm_within:.1f} s after the trouble; exits of workers: {dict(workers.exits)}")
    for what, count in workers.tracebacks().items():
        print(f"ended with a traceback, {count} times: {what}")


if __name__ == "__main__":
    sys.exit(main())
