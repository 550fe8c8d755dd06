"""A worker, its provider and the jobs of an account, as a test sees them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs import transitions
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import State
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import Process, asking, worker

SHORT: dict[str, Any] = {
    "PROVIDER_CALL_SECONDS": 2,
    "ATTEMPT_SECONDS": 5,
    "RESERVATION_SECONDS": 9,
    "RUNTIME_ALLOWANCE_SECONDS": 12,
    "CONNECT_TIMEOUT_SECONDS": 1,
    "LEASE_SECONDS": 3,
    "JOB_DEADLINE_SECONDS": 60,
}


class Site:
    """A worker, its provider, and the jobs of an account."""

    def __init__(
        self,
        fake: FakeProvider,
        database: Database,
        account_id: uuid.UUID,
        addresses: dict[str, str],
        worker: Process,
    ) -> None:
        self.fake = fake
        self.worker = worker
        self.database = database
        self.account_id = account_id
        self.addresses = addresses

    def submit(self, content: bytes = factories.TEXT, **more: Any) -> uuid.UUID:
        with self.database.transaction() as session:
            return factories.submit(session, self.account_id, content, **more).job_id

    def view(self, job_id: uuid.UUID) -> JobView:
        with self.database.transaction() as session:
            view = job_views.any_job(session, job_id)
        assert view is not None
        return view

    def wait_for(self, job_id: uuid.UUID, *states: State, within: float = 20) -> JobView:
        return factories.wait_until(  # type: ignore[no-any-return]
            lambda: view if (view := self.view(job_id)).state in states else None,
            within=within,
            what=lambda: f"{states} in:\n{self.worker.log}",
        )

    def waits_for_lane(self, job_id: uuid.UUID) -> bool:
        with self.database.transaction() as session:
            return job_views.lane_wait_of(session, job_id) is not None

    def calls(self, job_id: uuid.UUID) -> list[str]:
        with self.database.transaction() as session:
            return [call.outcome for call in job_views.calls_of(session, job_id)]

    def outcomes(self, job_id: uuid.UUID) -> list[str | None]:
        with self.database.transaction() as session:
            return [attempt.outcome for attempt in job_views.attempts_of(session, job_id)]

    def ops(self, decision: str) -> str:
        variables = factories.environment(self.addresses, **asking(self.fake))
        return completed(["-m", "tasks", "ops", decision], variables, check=True).stdout

    def cancel(self, job_id: uuid.UUID) -> State | None:
        with self.database.transaction() as session:
            return transitions.cancel(session, job_id, self.account_id)

    def results(self) -> int:
        with self.database.transaction() as session:
            return factories.count(session, "results")

    def orphans(self) -> int:
        with self.database.transaction() as session:
            return job_views.orphans(session, grace_seconds=0)


Opened = Callable[..., Any]


def opener(addresses: dict[str, str], database: Database, account_id: uuid.UUID) -> Opened:
    """Return `open_site`: `with open_site({"mode": "ok"}, slots=2, LEASE_SECONDS=1) as site:`"""

    @contextmanager
    def opened(*steps: dict[str, Any], slots: int = 4, **settings: Any) -> Iterator[Site]:
        with FakeProvider() as fake:
            fake.script(steps)
            with worker(addresses, slots=slots, **asking(fake, **settings)) as running:
                yield Site(fake, database, account_id, addresses, running)

    return opened
