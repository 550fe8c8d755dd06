"""The stage of one drill: its own queue, account, scripted provider and processes, which are removed at its end."""

from __future__ import annotations

import signal
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.drills import cleanup
from tasks.drills.facts import WITHIN_SECONDS, DrillFailed, wait_until
from tasks.drills.processes import POISON, POISONED, Child, environment
from tasks.fake_provider import FakeProvider
from tasks.fake_provider.http_server import Seen, Step
from tasks.ledger.jobs import accept
from tasks.ledger.jobs.accept import Intent, NewDocument
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import State
from tasks.ledger.terms import Terms
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tasks.workflows import WORKFLOWS
from tasks.workflows.base import check_options

T = TypeVar("T")


@dataclass(frozen=True)
class Means:
    """Holds the services that all drills of a run share. `stopping` is set when the run must end."""

    settings: Settings
    database: Database
    queue_named: Callable[[str], DeliveryQueue]
    stopping: threading.Event


class Stage:
    """Runs one drill's environment inside a `with`. `expected` maps each submitted job to its expected end state."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self.names = cleanup.Names(uuid.uuid4().hex[:8])
        self.queue = means.queue_named(self.names.queue)
        self.fake = FakeProvider()
        self.children: list[Child] = []
        self.expected: dict[uuid.UUID, State] = {}
        self.recovery_seconds: float | None = None
        self.remark = ""  # an extra text for the table
        self._failure_began_at = 0.0

    def __enter__(self) -> Self:
        self.fake.__enter__()
        try:
            with self.transaction() as session:
                self.account_id = cleanup.make_account(session, self.names)
        except BaseException:
            self.fake.__exit__()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ExitStack() as stack:  # each step runs even if others fail
            stack.callback(self._remove_data)
            stack.callback(self.fake.__exit__)
            for child in self.children:
                stack.callback(child.end)

    def _remove_data(self) -> None:
        with self.transaction() as session:
            cleanup.forget_workers(session, socket.gethostname(), [child.pid for child in self.children])
        cleanup.take_away(self.means.database, self.queue, self.names)

    @property
    def transaction(self) -> Callable[[], AbstractContextManager[Session]]:
        """Return the function that begins a transaction, see `Database`."""
        return self.means.database.transaction

    @property
    def lane(self) -> str:
        """Return the name of the lane to the scripted provider."""
        return f"{self.names.queue}:openai"

    def submit(self, *, ends: State = State.SUCCEEDED, poison: bool = False) -> uuid.UUID:
        """Accept a job as the web process does, for a document that was not handed in before, and return its id.

        With `poison`, the document ends each worker that was started with `poisoned` while it is read.
        """
        workflow = WORKFLOWS["summary"]
        intent = Intent(self.account_id, "Drill", workflow.name, workflow.version, check_options(workflow, {}))
        text = f"Report {len(self.expected) + 1}. The harbour committee met in March. The pier is closed until August."
        text += f" {POISON}" if poison else ""
        with self.transaction() as session:
            terms = Terms(self.names.queue, deadline_seconds=60, max_attempts=3)
            job_id = accept.accept_job(session, intent, NewDocument(text.encode(), "txt", None), terms).job_id
        self.expected[job_id] = ends
        return job_id

    def script(self, *steps: Step) -> None:
        """Set what the provider does with the next requests; the last step repeats."""
        self.fake.script(steps)

    def worker(
        self,
        *,
        die_at: str | None = None,
        slots: int = 2,
        budgets: Mapping[str, str] = MappingProxyType({}),
        poisoned: bool = False,
    ) -> Child:
        """Start a worker and wait until it works. With `die_at`, a fault point at which it dies, do not wait.

        `budgets` replaces some of the drill's usual times.
        """
        more = {**budgets, **({POISONED: "1"} if poisoned else {})}
        child = self._start(["worker", "--slots", str(slots)], die_at, more)
        if die_at is None:
            self.wait_for_log(child, "worker.started")
        return child

    def dispatcher(self, *, die_at: str) -> Child:
        """Start a dispatcher that dies at this fault point."""
        return self._start(["dispatcher"], die_at, {})

    def _start(self, command: list[str], die_at: str | None, budgets: Mapping[str, str]) -> Child:
        variables = environment(self.means.settings, self.names.queue, self.fake.base_url)
        if die_at is not None:
            variables["WAYBILL_DIE_AT"] = die_at
        child = Child(command, {**variables, **budgets})
        self.children.append(child)
        return child

    def view(self, job_id: uuid.UUID) -> JobView:
        """Return the current state of the job. Raises DrillFailed if its row is gone."""
        with self.transaction() as session:
            view = job_views.any_job(session, job_id)
        if view is None:
            raise DrillFailed("a job's row is gone")
        return view

    def wait_until(self, fact: Callable[[], T], what: str, *, within_seconds: float = WITHIN_SECONDS) -> T:
        """Wait until the fact is true, see `facts.wait_until`."""
        return wait_until(fact, what, stopping=self.means.stopping, within_seconds=within_seconds)

    def wait_for(self, *jobs: uuid.UUID) -> None:
        """Wait until these jobs, or all, are in their expected end state."""
        for job_id in jobs or tuple(self.expected):
            self.wait_for_state(job_id, self.expected[job_id])

    def wait_for_state(self, job_id: uuid.UUID, state: State) -> None:
        """Wait until the job is in this state."""
        self.wait_until(lambda: self.view(job_id).state is state, f"a job {state}")

    def wait_for_requests(self, count: int) -> list[Seen]:
        """Wait until the provider has seen this many requests, and return them."""
        self.wait_until(lambda: len(self.fake.requests) >= count, f"{count} provider calls")
        return self.fake.requests

    def wait_for_log(self, child: Child, words: str) -> None:
        """Wait until the log of a process contains these words."""

        def is_logged_or_ended() -> bool:
            return words in child.log or child.exit_code is not None

        self.wait_until(is_logged_or_ended, f"{words} in the log")
        self.check(words in child.log, f"a process ended without saying {words}")

    def wait_for_end(self, child: Child, code: int = -signal.SIGKILL) -> None:
        """Wait until a process ends, and check its exit code."""
        self.wait_until(lambda: child.exit_code is not None, "the end of a process")
        self.check(child.exit_code == code, f"a process ended with {child.exit_code}, not {code}")

    def check(self, fact: bool, otherwise: str) -> None:
        """Raise DrillFailed with the message `otherwise` unless the fact is true."""
        if not fact:
            raise DrillFailed(otherwise)

    def struck(self) -> None:
        """Note that the failure begins now."""
        self._failure_began_at = monotonic()

    def recovered(self) -> None:
        """Note that the site has recovered now."""
        self.recovery_seconds = monotonic() - self._failure_began_at
