"""The site that is photographed: its own services, the real web process and worker, and a scripted AI service."""

from __future__ import annotations

import random
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import func, select, update

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs.accept import Intent, NewDocument, accept_job
from tasks.ledger.models import Job
from tasks.ledger.models.workers import Worker
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tasks.queue.redis_client import connect
from tasks.settings import Settings
from tests.screenshots.clock import NOW, StandingClock, before
from tests.screenshots.sample_documents import Paper
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import Process, answers, asking, process, worker
from webapp.auth.api_tokens import make_token
from webapp.local.ports import free_port
from webapp.local.services import services, temporary_directory
from webapp.models import Account

MARA, OPERATOR, PASSWORD = "mara@harbour.example", "operator@harbour.example", "a good long password"
MODEL, WORKER = "gpt-5-mini", "worker-1"
_DRAWN = random.Random("waybill")


def drawn_id() -> uuid.UUID:
    """Return an id that looks random but is the same in each run: it starts the reference that pages show."""
    return uuid.UUID(int=_DRAWN.getrandbits(128), version=4)


class Stage:
    """Creates the events on the site before the pictures are taken."""

    def __init__(
        self,
        address: str,
        site_variables: dict[str, str],
        settings: Settings,
        fake: FakeProvider,
        clock: StandingClock,
    ) -> None:
        self.address = address
        self._variables = site_variables
        self.settings = settings
        self.fake = fake
        self.clock = clock
        self.database = Database(settings, "waybill-screenshots")
        self._connection = connect(settings, connections=2)
        self._dispatcher = Dispatcher(self.database.transaction, DeliveryQueue(settings, self._connection))
        self.worker: Process | None = None

    def close(self) -> None:
        self.database.close()
        self._connection.connection_pool.disconnect()

    def account(self, email: str) -> uuid.UUID:
        """Return the account's id."""
        with self.database.transaction() as session:
            return session.execute(select(Account.id).where(Account.email == email)).scalar_one()

    def make_token(self, email: str, name: str, at: datetime) -> None:
        """Create an API token."""
        self.clock.set(at)
        owner = self.account(email)
        with self.database.transaction() as session:
            make_token(session, owner, name)

    def hand_in(self, owner: uuid.UUID, paper: Paper, at: datetime) -> uuid.UUID:
        """Record the job at that time, as the web process does, without notifying the worker yet."""
        self.clock.set(at)
        intent = Intent(owner, paper.title, paper.workflow, 1, paper.options)
        document = NewDocument(paper.content, paper.kind, paper.filename)
        with patch("uuid.uuid4", drawn_id), self.database.transaction() as session:
            return accept_job(session, intent, document, self.settings.terms).job_id

    def begin(self, owner: uuid.UUID, paper: Paper, at: datetime, step: dict[str, Any], *, words: str) -> uuid.UUID:
        """Hand in, with this step as the AI service's script for requests with these words, and notify the worker."""
        self.fake.script([step], marker=words)
        job_id = self.hand_in(owner, paper, at)
        self._dispatcher.dispatch_now(job_id)
        return job_id

    def work_off(self, owner: uuid.UUID, paper: Paper, at: datetime, *, words: str, seconds: float = 21) -> uuid.UUID:
        """Hand in, and have the AI service respond this many seconds later."""
        answer = {"mode": "gate", "name": words, "text": paper.answer, "model": MODEL}
        job_id = self.begin(owner, paper, at, answer, words=words)
        self.wait_for_requests(words)
        self.clock.set(at + timedelta(seconds=seconds))
        self.fake.release(words)
        self.wait_for(job_id, State.SUCCEEDED)
        return job_id

    def wait_for_requests(self, words: str, count: int = 1) -> None:
        """Wait until the AI service has received this many requests with these words."""
        self.fake.wait_for(lambda: sum(words.encode() in seen.body for seen in self.fake.requests) >= count, timeout=60)

    def wait_for(self, job_id: uuid.UUID, state: State) -> None:
        """Wait until the job is in this state."""
        factories.wait_until(lambda: self.state_of(job_id) is state, within=60, what=lambda: f"{state}: {self._log()}")

    def wait_for_parts(self, job_id: uuid.UUID, done: int) -> None:
        """Wait until this many of its parts are saved."""
        factories.wait_until(
            lambda: self._parts_of(job_id) == done, within=60, what=lambda: f"{done} parts: {self._log()}"
        )

    def state_of(self, job_id: uuid.UUID) -> State:
        with self.database.transaction() as session:
            return factories.state_of(session, job_id)

    def _parts_of(self, job_id: uuid.UUID) -> int:
        with self.database.transaction() as session:
            view = job_views.any_job(session, job_id)
        return view.progress_done if view else 0

    def _log(self) -> str:
        return self.worker.log[-4000:] if self.worker else "no worker"

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run a worker while the block runs."""
        with worker(self._variables, slots=8) as self.worker:
            factories.wait_until(self._seen_now, within=60, what=self._log)
            yield
        self.worker = None

    def freeze(self) -> None:
        """Freeze everything as it is: the worker gets no more time, and the clock shows NOW."""
        assert self.worker is not None
        self.clock.set(NOW)
        factories.wait_until(self._seen_now, within=60, what=self._log)
        self.worker.signal(signal.SIGSTOP)
        # the worker's name begins with that of the machine that takes the pictures
        with self.database.transaction() as session:
            session.execute(update(Worker).values(name=WORKER))
            session.execute(update(Job).where(Job.claimed_by.is_not(None)).values(claimed_by=WORKER))

    def _seen_now(self) -> bool:
        with self.database.transaction() as session:
            return bool(session.execute(select(func.max(Worker.seen_at) == func.now())).scalar_one())


def variables(addresses: dict[str, str], fake: FakeProvider) -> dict[str, str]:
    """Return the environment of the site's processes. A lease lasts longer than the steps of the clock."""
    ours = {"QUEUE_NAME": "waybill", "JOBS_PER_DAY": "100", "JOBS_AT_ONCE": "20", "AI_MODEL": MODEL}
    return {**addresses, **asking(fake), **ours, "LEASE_SECONDS": "100"}


@contextmanager
def stage() -> Iterator[Stage]:
    """Run everything but the worker; gone after the block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(temporary_directory()))
        found = stack.enter_context(services(directory, throwaway=True))
        factories.refuse_a_redis_in_use(found["REDIS_URL"])
        database_url = stack.enter_context(factories.own_database(found["DATABASE_URL"]))
        addresses = {**found, "DATABASE_URL": database_url}
        clock = StandingClock(database_url)
        stack.callback(clock.close)
        factories.migrate(addresses)
        fake = stack.enter_context(FakeProvider())
        port = free_port()
        site_variables = variables(addresses, fake)
        settings = factories.settings(
            addresses,
            queue_name=site_variables["QUEUE_NAME"],
            ai_provider="openai",
            openai_api_key="-",
            ai_model=MODEL,
        )
        environment = factories.environment(site_variables, HOST="127.0.0.1", PORT=str(port))
        clock.set(before(days=40))
        for email, role in ((MARA, []), (OPERATOR, ["--operator"])):
            create = ["-m", "flask", "--app", "wsgi", "accounts", "create", email, *role]
            completed(create, {**environment, "ACCOUNT_PASSWORD": PASSWORD}, check=True)
        web = stack.enter_context(process(["-m", "gunicorn", "wsgi:app"], environment))
        address = f"http://127.0.0.1:{port}"
        factories.wait_until(lambda: answers(f"{address}/healthz"), within=60, what=lambda: web.log)
        made = Stage(address, site_variables, settings, fake, clock)
        stack.callback(made.close)
        yield made
