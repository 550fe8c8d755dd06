"""A site without a worker: nothing changes unless a test changes the ledger."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tasks.ledger.states import State
from tests.support import factories
from tests.support.browser import session_and_axe
from tests.support.processes.processes import answers, process
from tests.web.conftest import WebHarness
from webapp.local.ports import free_port
from webapp.models import Role

ANSWER = """## What was decided

The **north pier** is closed until August. See https://example.org/pier?of=harbour for more.

1. Anna repairs it.
> Anna repairs the north pier by August.

| Who | What | By when |
|---|---|---|
| Anna | `repairs` the pier | August |
"""


@dataclass
class StillSite:
    """The site's address, and its database."""

    address: str
    database: Database

    def account(self, email: str = "ada@example.org", *, role: Role = Role.USER, password_hash: str = "-") -> uuid.UUID:
        with self.database.transaction() as session:
            return factories.make_account(session, email, role, password_hash)

    def window(self, chromium: Browser, account: uuid.UUID | None, **more: object) -> BrowserContext:
        """Open a browser window that is signed in to this account; None for an anonymous one."""
        window = chromium.new_context(base_url=self.address, **more)  # type: ignore[arg-type]
        if account is not None:
            with self.database.transaction() as session:
                factories.begin_session(session, account)
            session_and_axe.sign_in(window, self.address, account)
        return window

    def sql(self, statement: str, **values: object) -> None:
        """Run SQL that simulates the passing of time, or a fault."""
        with self.database.transaction() as session:
            session.execute(text(statement), values)


@contextmanager
def still_site(addresses: dict[str, str], **changed: str) -> Iterator[StillSite]:
    """Run the site while the block runs, over emptied services. `changed` is added to its environment."""
    settings = factories.settings(addresses)
    database = Database(settings, "waybill-test")
    with database.transaction() as session:
        factories.empty(session)
    factories.empty_redis(addresses["REDIS_URL"])
    port = str(free_port())
    address = f"http://127.0.0.1:{port}"
    variables = factories.environment(addresses, HOST="127.0.0.1", PORT=port, APP_BASE_URL=address, **changed)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
        factories.wait_until(lambda: answers(f"{address}/healthz"), what=lambda: web.log)
        yield StillSite(address, database)
    database.close()


def in_every_state(bench: WebHarness) -> dict[State, uuid.UUID]:
    """Create one job in each of the seven states."""
    running = bench.job(title="Working")
    bench.read(bench.claim(running), done=3, total=8)
    cancelling, cancelled = bench.job(title="Cancelling"), bench.job(title="Cancelled")
    bench.claim(cancelling)
    with bench.database.transaction() as session:
        for job_id in (cancelling, cancelled):
            transitions.cancel(session, job_id, bench.owner)
    return {
        State.QUEUED: bench.job(title="Waiting"),
        State.RUNNING: running,
        State.RETRY_WAIT: bench.waiting("rate_limited"),
        State.SUCCEEDED: bench.succeeded(ANSWER, title="Saved"),
        State.FAILED: bench.failed("overloaded", title="Failed"),
        State.CANCEL_REQUESTED: cancelling,
        State.CANCELLED: cancelled,
    }
