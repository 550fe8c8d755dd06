"""Whether work of a queue goes on: open, paused (nothing more is dispatched), drained (no attempt begins either).

A claim passes the gate in its own transaction, under a lock that a decision takes alone. So a drain that was committed
is never followed by a new claim, and what it counts as active is all there will be.
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
"""Why a claim does not pass."""


@dataclass(frozen=True)
class GateState:
    """How the gate of a queue stands. `changed_at` and `changed_by` are None where nobody ever touched it."""

    dispatch_stopped: bool = False
    claims_stopped: bool = False
    at_once: int | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None
    note: str | None = None

    @property
    def shut(self) -> bool:
        """Whether an operator has paused the work, so that what waits is waiting for that operator."""
        return self.dispatch_stopped

    @property
    def word(self) -> str:
        """`open`, `limited`, `paused` or `draining`."""
        if self.claims_stopped:
            return "draining"
        if self.dispatch_stopped:
            return "paused"
        return "open" if self.at_once is None else "limited"


@dataclass(frozen=True)
class Active:
    """One job that somebody holds."""

    job_id: uuid.UUID
    worker: str
    claimed_at: datetime | None
    step: str | None

    @property
    def reference(self) -> str:
        """What a person quotes."""
        return reference_of(self.job_id)


def load(session: Session, queue: str) -> GateState:
    """How the gate of this queue stands now."""
    return _standing(
        session.execute(
            select(Gate).where(Gate.queue == queue).execution_options(populate_existing=True)
        ).scalar_one_or_none()
    )


def before(session: Session, job_id: uuid.UUID) -> GateState:
    """How the gate stands that this job has to pass."""
    return _standing(
        session.execute(
            select(Gate)
            .join(Job, Job.queue == Gate.queue)
            .where(Job.id == job_id)
            .execution_options(populate_existing=True)
        ).scalar_one_or_none()
    )


def passes(session: Session, job_id: uuid.UUID) -> str | None:
    """May an attempt at this job begin? None: yes, and no decision is made until the transaction ends.

    Else STOPPED: an operator has stopped claims; or FULL: as many jobs are held as may be at once.
    """
    queue = session.execute(select(Job.queue).where(Job.id == job_id)).scalar_one_or_none()
    if queue is None:
        return None  # the claim finds no job either
    _lock(session, queue, shared=True)
    standing = load(session, queue)  # after the lock: what was decided before it was given is seen
    if standing.claims_stopped:
        return STOPPED
    if standing.at_once is None:
        return None
    _count_alone(session, queue)
    return FULL if active(session, queue) >= standing.at_once else None


def pause(session: Session, queue: str, *, by: str, note: str | None = None) -> GateState:
    """Hand nothing more to the queue. What is there already may still be claimed; a drain stays one."""
    before = _alone(session, queue)
    _set(session, queue, True, before.claims_stopped, before.at_once, by, note)
    audit_log.write_down(session, queue, Decided.PAUSE, by=by, note=note, before=before.word)
    return load(session, queue)


def drain(session: Session, queue: str, *, by: str, note: str | None = None) -> int:
    """Hand nothing more to the queue, and let no attempt begin. How many jobs are held: they may finish."""
    before = _alone(session, queue)
    _set(session, queue, True, True, before.at_once, by, note)
    held = active(session, queue)
    audit_log.write_down(session, queue, Decided.DRAIN, by=by, note=note, before=before.word, active=held)
    return held


def resume(
    session: Session, queue: str, *, by: str, at_once: int | None = None, note: str | None = None
) -> GateState | None:
    """Let work go on, with at most `at_once` jobs held at the same time, None: without a limit.

    How the gate stood before; None if it stood like that already, and nothing was decided.
    """
    before = _alone(session, queue)
    if not before.shut and before.at_once == at_once:
        return None
    _set(session, queue, False, False, at_once, by, note)
    audit_log.write_down(session, queue, Decided.RESUME, by=by, note=note, before=before.word, at_once=at_once)
    return before


def active(session: Session, queue: str) -> int:
    """How many jobs of the queue somebody holds."""
    return session.execute(
        select(func.count()).select_from(Job).where(Job.queue == queue, Job.lease_expires_at.is_not(None))
    ).scalar_one()


def waiting(session: Session, queue: str) -> int:
    """How many jobs of the queue wait for a claim."""
    return session.execute(select(func.count()).select_from(Delivery).where(Delivery.queue == queue)).scalar_one()


def held(session: Session, queue: str, *, limit: int) -> Sequence[Active]:
    """The jobs of the queue that somebody holds, the longest held first."""
    rows = session.execute(
        select(Job.id, Job.claimed_by, Job.claimed_at, Job.step)
        .where(Job.queue == queue, Job.lease_expires_at.is_not(None))
        .order_by(Job.claimed_at)
        .limit(limit)
    ).all()
    return [Active(job_id, worker or "", claimed_at, step) for job_id, worker, claimed_at, step in rows]


def _standing(gate: Gate | None) -> GateState:
    if gate is None:
        return GateState()
    return GateState(
        gate.dispatch_stopped, gate.claims_stopped, gate.at_once, gate.changed_at, gate.changed_by, gate.note
    )


def _alone(session: Session, queue: str) -> GateState:
    """Wait until no claim is being given, keep others from being given, and say how the gate stands."""
    _lock(session, queue, shared=False)
    return load(session, queue)


def _lock(session: Session, queue: str, *, shared: bool) -> None:
    """Of the transaction: a pooler in transaction mode keeps no session. On a name, since there may be no row yet."""
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    session.execute(text(f"SELECT {function}(hashtext(:name))"), {"name": f"gate {queue}"})


def _count_alone(session: Session, queue: str) -> None:
    """Serialises the counting: without the lock two claims would both see the last free place."""
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
