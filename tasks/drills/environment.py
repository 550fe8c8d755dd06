"""The stage of one drill: a queue, an account, a scripted provider and processes of its own, gone when it is over."""

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
from tasks.drills.processes import Child, environment
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
    """What all drills of a run share. `stopping` is set when somebody wants the run to end."""

    settings: Settings
    database: Database
    queue_named: Callable[[str], DeliveryQueue]
    stopping: threading.Event


class Stage:
    """Use with `with`. `expected` holds the job of every submit, and the state it is to end in."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self.names = cleanup.Names(uuid.uuid4().hex[:8])
        self.queue = means.queue_named(self.names.queue)
        self.fake = FakeProvider()
        self.children: list[Child] = []
        self.expected: dict[uuid.UUID, State] = {}
        self.recovery_seconds: float | None = None
        self.remark = ""  # what the table says besides
        self._struck_at = 0.0

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
        with ExitStack() as stack:  # each step is made whatever becomes of the others
            stack.callback(self._take_traces_away)
            stack.callback(self.fake.__exit__)
            for child in self.children:
                stack.callback(child.end)

    def _take_traces_away(self) -> None:
        with self.transaction() as session:
            cleanup.forget_workers(session, socket.gethostname(), [child.pid for child in self.children])
        cleanup.take_away(self.means.database, self.queue, self.names)

    @property
    def transaction(self) -> Callable[[], AbstractContextManager[Session]]:
        """One transaction, see Database."""
        return self.means.database.transaction

    @property
    def lane(self) -> str:
        """The name of the way to the scripted provider."""
        return f"{self.names.queue}:openai"

    def submit(self, *, ends: State = State.SUCCEEDED) -> uuid.UUID:
        """Record a job the way the web does, about a document nobody has handed in before."""
        workflow = WORKFLOWS["summary"]
        intent = Intent(self.account_id, "Drill", workflow.name, workflow.version, check_options(workflow, {}))
        text = f"Report {len(self.expected) + 1}. The harbour committee met in March. The pier is closed until August."
        with self.transaction() as session:
            terms = Terms(self.names.queue, deadline_seconds=60, max_attempts=3)
            job_id = accept.accept_job(session, intent, NewDocument(text.encode(), "txt", None), terms).job_id
        self.expected[job_id] = ends
        return job_id

    def script(self, *steps: Step) -> None:
        """What the provider does with the next requests; the last step repeats."""
        self.fake.script(steps)

    def worker(
        self, *, die_at: str | None = None, slots: int = 2, budgets: Mapping[str, str] = MappingProxyType({})
    ) -> Child:
        """Start a worker, and wait until it works. One that is to die at a named moment is only started.

        `budgets` replaces some of the drill's usual times.
        """
        child = self._start(["worker", "--slots", str(slots)], die_at, budgets)
        if die_at is None:
            self.wait_for_log(child, "worker.started")
        return child

    def dispatcher(self, *, die_at: str) -> Child:
        """Start a dispatcher that is to die at a named moment."""
        return self._start(["dispatcher"], die_at, {})

    def _start(self, command: list[str], die_at: str | None, budgets: Mapping[str, str]) -> Child:
        known = environment(self.means.settings, self.names.queue, self.fake.base_url)
        if die_at is not None:
            known["WAYBILL_DIE_AT"] = die_at
        child = Child(command, {**known, **budgets})
        self.children.append(child)
        return child

    def view(self, job_id: uuid.UUID) -> JobView:
        """How the job stands. Raises DrillFailed when its row is gone."""
        with self.transaction() as session:
            view = job_views.any_job(session, job_id)
        if view is None:
            raise DrillFailed("a job's row is gone")
        return view

    def wait_until(self, fact: Callable[[], T], what: str, *, within_seconds: float = WITHIN_SECONDS) -> T:
        """See `facts.wait_until`."""
        return wait_until(fact, what, stopping=self.means.stopping, within_seconds=within_seconds)

    def wait_for(self, *jobs: uuid.UUID) -> None:
        """Wait until these jobs, or all, are in the state they are to end in."""
        for job_id in jobs or tuple(self.expected):
            self.wait_for_state(job_id, self.expected[job_id])

    def wait_for_state(self, job_id: uuid.UUID, state: State) -> None:
        """Wait until the job is in this state."""
        self.wait_until(lambda: self.view(job_id).state is state, f"a job {state}")

    def wait_for_requests(self, count: int) -> list[Seen]:
        """Wait until the provider was asked so often."""
        self.wait_until(lambda: len(self.fake.requests) >= count, f"{count} provider calls")
        return self.fake.requests

    def wait_for_log(self, child: Child, words: str) -> None:
        """Wait until a process has said this."""

        def said() -> bool:
            return words in child.log or child.exit_code is not None

        self.wait_until(said, f"{words} in the log")
        self.check(words in child.log, f"a process ended without saying {words}")

    def wait_for_end(self, child: Child, code: int = -signal.SIGKILL) -> None:
        """Wait until a process ends, and check how."""
        self.wait_until(lambda: child.exit_code is not None, "the end of a process")
        self.check(child.exit_code == code, f"a process ended with {child.exit_code}, not {code}")

    def check(self, fact: bool, otherwise: str) -> None:
        """Go on if it is so. Raises DrillFailed."""
        if not fact:
            raise DrillFailed(otherwise)

    def struck(self) -> None:
        """The trouble begins now."""
        self._struck_at = monotonic()

    def recovered(self) -> None:
        """The trouble is over."""
        self.recovery_seconds = monotonic() - self._struck_at
