"""The ids that operations need to know of a start state, and the terms on which everything runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from tasks.ledger.calls.calls import NewCall
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.jobs.accept import AcceptedJob, Intent, NewDocument, accept_job
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.terms import Terms
from tasks.settings import Settings
from tests.explore.memory_queue import MemoryQueue
from tests.support import factories

ACCOUNT = uuid.UUID(int=0xACC)
HOLDER, SUCCESSOR = "holder", "successor"
"""Name the worker that holds the claim of a start state, and the one that claimed the job after it."""
STEP = "summarise"
RESPONSE = "resp-1"
MAX_INTERRUPTIONS = 2
JOBS_AT_ONCE = 3
CALLS_AT_ONCE = 2
LEASE_SECONDS, RESERVATION_SECONDS = 600.0, 900.0


def explorer_settings(database_url: str) -> Settings:
    """Return the settings under which operations run: low limits, so that they are reached."""
    addresses = {"DATABASE_URL": database_url, "REDIS_URL": "redis://127.0.0.1"}
    return factories.settings(
        addresses, jobs_at_once=JOBS_AT_ONCE, max_interruptions=MAX_INTERRUPTIONS, retention_days=30
    )


@dataclass
class World:
    """A start state. `claim` is held now, and `late_claim` was lost by a worker that does not know it yet.

    `call` and `late_call` were opened under them. `closed` is how the lane was closed when a worker asked it.
    `owed_nothing` says that the job lacks its delivery on purpose, `is_background` that the provider works on the call
    without a connection, and `has_response` that the id of its response, `RESPONSE`, is saved.
    """

    settings: Settings
    job: uuid.UUID
    document: uuid.UUID
    other: uuid.UUID | None = None
    claim: Claim | None = None
    late_claim: Claim | None = None
    call: uuid.UUID | None = None
    late_call: uuid.UUID | None = None
    closed: Closed | None = None
    owed_nothing: bool = False
    is_background: bool = False
    has_response: bool = False
    queue: MemoryQueue = field(default_factory=MemoryQueue)

    @property
    def lane(self) -> str:
        """Return the name of the lane."""
        return self.settings.lane

    def copy(self) -> World:
        """Return the same world with a queue of its own."""
        return replace(self, queue=self.queue.copy())


def sql(session: Session, statement: str, **values: Any) -> Any:
    """Execute a statement in SQL."""
    return session.execute(text(statement), values)


def content(number: int) -> bytes:
    """Return the content of a document."""
    return f"document {number}".encode()


def intent(number: int, **more: Any) -> Intent:
    """Return what a user requests for the document with this number."""
    return Intent(ACCOUNT, f"Job {number}", "summary", 1, {"length": "medium", "form": "prose"}, **more)


def terms(settings: Settings) -> Terms:
    """Return the terms on which the site accepts jobs."""
    return Terms(settings.queue_name, settings.job_deadline_seconds, settings.max_attempts, settings.limits)


def accept(session: Session, settings: Settings, number: int, **more: Any) -> AcceptedJob:
    """Accept a job about the document with this number."""
    return accept_job(session, intent(number, **more), NewDocument(content(number), "txt", "a.txt"), terms(settings))


def new_call(lane: str, step: str = STEP, *, background: bool = False, limit: int = CALLS_AT_ONCE) -> NewCall:
    """Return a call that is about to be made."""
    return NewCall(step, lane, "local", "local", limit, 60, background)
