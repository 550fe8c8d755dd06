"""The operator's gate of a queue: open, limited, paused (nothing is dispatched) or draining (no attempt begins either).

A claim passes the gate in its own transaction, under a shared advisory lock of the queue; an operator's decision takes
the same lock exclusively. So no claim commits after a drain has committed, and the jobs that the drain counts as active
are all there will be.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.history import audit_log
from tasks.ledger.keys import reference_of
from tasks.ledger.models import Delivery, Job
from tasks.ledger.models.control import Decided, Gate

STOPPED, FULL = "stopped", "full"
"""Name the reasons for which a claim does not pass the gate."""


@dataclass(frozen=True)
class GateState:
    """The state of a queue's gate. `changed_at` and `changed_by` are None if no operator has ever changed it."""

    dispatch_stopped: bool = False
    claims_stopped: bool = False
    at_once: int | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None
    note: str | None = None

    @property
    def is_paused(self) -> bool:
        """Return True if an operator has paused the work, so that waiting jobs wait for that operator."""
        return self.dispatch_stopped

    @property
    def mode(self) -> str:
        """Return `open`, `limited`, `paused` or `draining`."""
        if self.claims_stopped:
            return "draining"
        if self.dispatch_stopped:
            return "paused"
        return "open" if self.at_once is None else "limited"


@dataclass(frozen=True)
class Active:
    """A job that a worker holds."""

    job_id: uuid.UUID
    worker: str
    claimed_at: datetime | None
    step: str | None

    @property
    def reference(self) -> str:
        """Return the reference that users quote."""
        return reference_of(self.job_id)


def load(session: Session, queue: str) -> GateState:
    """Return the present state of this queue's gate."""
    return _state(
        session.execute(
            select(Gate).where(Gate.queue == queue).execution_options(populate_existing=True)
        ).scalar_one_or_none()
    )


def load_for_job(session: Session, job_id: uuid.UUID) -> GateState:
    """Return the state of the gate that this job has to pass."""
    return _state(
        session.execute(
            select(Gate)
            .join(Job, Job.queue == Gate.queue)
            .where(Job.id == job_id)
            .execution_options(populate_existing=True)
        ).scalar_one_or_none()
    )


def check(session: Session, job_id: uuid.UUID) -> str | None:
    """Check if an attempt at this job may begin.

    Returns None if it may; then no operator can change the gate until the transaction ends. Otherwise returns STOPPED
    if an operator has stopped claims, or FULL if as many jobs are held as the gate allows at once.
    """
    queue = session.execute(select(Job.queue).where(Job.id == job_id)).scalar_one_or_none()
    if queue is None:
        return None  # the claim then finds no job either, and says so
    _lock(session, queue, shared=True)
    state = load(session, queue)  # read after the lock was granted, so that it shows every earlier decision
    if state.claims_stopped:
        return STOPPED
    if state.at_once is None:
        return None
    _lock_count(session, queue)
    return FULL if active(session, queue) >= state.at_once else None


def pause(session: Session, queue: str, *, by: str, note: str | None = None) -> GateState:
    """Send nothing more to the queue. Messages that are there already may still be claimed. A drain stays a drain."""
    before = _lock_alone(session, queue)
    _set(session, queue, True, before.claims_stopped, before.at_once, by, note)
    audit_log.record(session, queue, Decided.PAUSE, by=by, note=note, before=before.mode)
    return load(session, queue)


def drain(session: Session, queue: str, *, by: str, note: str | None = None) -> int:
    """Send nothing more to the queue, and let no attempt begin. Return how many jobs are held; these may finish."""
    before = _lock_alone(session, queue)
    _set(session, queue, True, True, before.at_once, by, note)
    held_jobs = active(session, queue)
    audit_log.record(session, queue, Decided.DRAIN, by=by, note=note, before=before.mode, active=held_jobs)
    return held_jobs


def resume(
    session: Session, queue: str, *, by: str, at_once: int | None = None, note: str | None = None
) -> GateState | None:
    """Let the work go on, with at most `at_once` jobs held at the same time; None means without a limit.

    Returns the state before. Returns None, and records no decision, if the gate was in the requested state already.
    """
    before = _lock_alone(session, queue)
    if not before.is_paused and before.at_once == at_once:
        return None
    _set(session, queue, False, False, at_once, by, note)
    audit_log.record(session, queue, Decided.RESUME, by=by, note=note, before=before.mode, at_once=at_once)
    return before


def active(session: Session, queue: str) -> int:
    """Count the jobs of the queue that a worker holds."""
    return session.execute(
        select(func.count()).select_from(Job).where(Job.queue == queue, Job.lease_expires_at.is_not(None))
    ).scalar_one()


def waiting(session: Session, queue: str) -> int:
    """Count the jobs of the queue that wait for a claim."""
    return session.execute(select(func.count()).select_from(Delivery).where(Delivery.queue == queue)).scalar_one()


def held(session: Session, queue: str, *, limit: int) -> Sequence[Active]:
    """Return the jobs of the queue that a worker holds, the earliest claim first."""
    rows = session.execute(
        select(Job.id, Job.claimed_by, Job.claimed_at, Job.step)
        .where(Job.queue == queue, Job.lease_expires_at.is_not(None))
        .order_by(Job.claimed_at)
        .limit(limit)
    ).all()
    return [Active(job_id, worker or "", claimed_at, step) for job_id, worker, claimed_at, step in rows]


def _state(gate: Gate | None) -> GateState:
    if gate is None:
        return GateState()
    return GateState(
        gate.dispatch_stopped, gate.claims_stopped, gate.at_once, gate.changed_at, gate.changed_by, gate.note
    )


def _lock_alone(session: Session, queue: str) -> GateState:
    """Wait for the claims that are being made, hold back new ones until the transaction ends, and return the state."""
    _lock(session, queue, shared=False)
    return load(session, queue)


def _lock(session: Session, queue: str, *, shared: bool) -> None:
    """Take the gate's advisory lock until the transaction ends.

    It belongs to the transaction and not to the session, since a pooler in transaction mode keeps no session. It is an
    advisory lock on a name, since the gate's row may not exist yet.
    """
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    session.execute(text(f"SELECT {function}(hashtext(:name))"), {"name": f"gate {queue}"})


def _lock_count(session: Session, queue: str) -> None:
    """Let one claim at a time count the held jobs, until it commits. Otherwise two could both take the last slot."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"places {queue}"})


def _set(
    session: Session, queue: str, dispatch_stopped: bool, claims_stopped: bool, at_once: int | None, by: str,
    note: str | None,
) -> None:  # fmt: skip
    values = {
        "dispatch_stopped": dispatch_stopped,
        "claims_stopped": claims_stopped,
        "at_once": at_once,
        "changed_at": func.now(),
        "changed_by": by,
        "note": note or None,
    }
    statement = insert(Gate).values(queue=queue, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[Gate.queue], set_=values))
