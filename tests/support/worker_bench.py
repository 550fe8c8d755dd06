"""A site in background mode whose waits can be skipped, and whose attempts and sweeps run by hand, one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.fake_provider.background import Generation
from tasks.intake import IntakePool
from tasks.ledger.jobs import transitions
from tasks.ledger.models import ProviderCall
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import State
from tasks.maintenance.response_cleanup import ResponseCleanup
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.attempt import Tools, work_on
from tasks.worker.heartbeat import HeldClaim
from tasks.worker.process import provider_settings
from tests.support import factories


def let_waits_pass(database: Database) -> None:
    """Make everything that is scheduled or postponed due now."""
    with database.transaction() as session:
        session.execute(
            text(
                "UPDATE deliveries SET not_before = least(not_before, now()), due_at = now() "
                "WHERE greatest(not_before, due_at) > now() + interval '0.5 s'"
            )
        )


def hurrying(database: Database, fact: Callable[[], Any]) -> Callable[[], Any]:
    """Return a condition that skips all waits before it is evaluated."""

    def hurried() -> Any:
        let_waits_pass(database)
        return fact()

    return hurried


class WorkerHarness:
    """The tools of one worker without its process."""

    def __init__(self, fake: FakeProvider, tools: Tools, account_id: uuid.UUID) -> None:
        self.fake = fake
        self.tools = tools
        self.database = tools.database
        self.account_id = account_id
        self.withdrawals = ResponseCleanup(tools.database.transaction, tools.settings, tools.provider)

    def submit(self, content: bytes = factories.TEXT, **more: Any) -> uuid.UUID:
        with self.database.transaction() as session:
            return factories.submit(session, self.account_id, content, **more).job_id

    def attempt(self, job_id: uuid.UUID) -> State | None:
        """Run one attempt, which must be due; return the job's state after it."""
        settings = self.tools.settings
        with self.database.transaction() as session:
            factories.let_the_wait_be_over(session, job_id)
        with self.database.transaction() as session:
            claim = transitions.claim(
                session, job_id, worker="bench", lane=settings.lane, lease_seconds=15, reservation_seconds=120
            )
        assert isinstance(claim, transitions.Claim), claim
        return work_on(HeldClaim(claim, attempt_seconds=90, reservation_seconds=120), self.tools)

    def handed_over(self, content: bytes = factories.TEXT, **more: Any) -> uuid.UUID:
        """Create a job that waits at the provider."""
        job_id = self.submit(content, **more)
        assert self.attempt(job_id) is State.QUEUED
        return job_id

    def view(self, job_id: uuid.UUID) -> JobView:
        with self.database.transaction() as session:
            found = job_views.any_job(session, job_id)
        assert found is not None
        return found

    def calls(self, job_id: uuid.UUID) -> list[ProviderCall]:
        with self.database.transaction() as session:
            return list(job_views.calls_of(session, job_id))

    def outcomes(self, job_id: uuid.UUID) -> list[str]:
        return [call.outcome for call in self.calls(job_id)]

    def state(self, job_id: uuid.UUID) -> State:
        with self.database.transaction() as session:
            return factories.state_of(session, job_id)

    def cancel(self, job_id: uuid.UUID) -> State | None:
        with self.database.transaction() as session:
            return transitions.cancel(session, job_id, self.account_id)

    def count(self, table: str) -> int:
        with self.database.transaction() as session:
            return factories.count(session, table)

    @property
    def generations(self) -> list[Generation]:
        return self.fake.generations


OpenBench = Callable[..., WorkerHarness]


@contextmanager
def worker_harness(
    addresses: dict[str, str], database: Database, account_id: uuid.UUID, **changed: Any
) -> Iterator[WorkerHarness]:
    """Yield a harness whose provider is scripted. `changed` is added to its settings."""
    with FakeProvider() as fake:
        settings: Settings = factories.settings(
            addresses,
            **{
                "ai_provider": "openai",
                "openai_api_key": "test",
                "openai_base_url": fake.base_url,
                "openai_background": True,
                **changed,
            },
        )
        loop = ProviderLoop(provider_settings(settings))
        loop.start()
        intake = IntakePool()
        try:
            yield WorkerHarness(fake, Tools(settings, database, loop, intake), account_id)
        finally:
            intake.close()
            assert loop.close(timeout=10)
