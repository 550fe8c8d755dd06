"""The progress of replays and the outcome of their jobs. Nothing here writes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import Session

from tasks.ledger.models import Job
from tasks.ledger.models.control import ItemOutcome, Replay, ReplayItem, ReplayState
from tasks.ledger.states import State


@dataclass(frozen=True)
class Progress:
    """The progress of a replay. `succeeded`, `failed_again` and `under_way` count only the jobs that were put back."""

    replay: Replay
    jobs: int
    replayed: int
    left_alone: int
    succeeded: int
    failed_again: int
    under_way: int

    @property
    def waiting(self) -> int:
        """Return how many jobs have not had their turn; if the replay has ended, they never will."""
        return self.jobs - self.replayed - self.left_alone


@dataclass(frozen=True)
class Item:
    """A job of a replay. `outcome` and `why` are as in its row; `state` is the job's present state."""

    job_id: uuid.UUID
    category: str | None
    outcome: str | None
    why: str | None
    state: State


def newest(session: Session, queue: str, *, limit: int) -> list[Progress]:
    """Return the progress of this queue's replays, newest first."""
    found = session.execute(
        select(Replay)
        .where(Replay.queue == queue)
        .order_by(Replay.created_at.desc())
        .limit(limit)
        .execution_options(populate_existing=True)
    ).scalars()
    return [_progress(session, replay) for replay in found.all()]


def one(session: Session, queue: str, replay_id: uuid.UUID) -> Progress | None:
    """Return the progress of this replay. Returns None if there is no such replay."""
    replay = session.execute(
        select(Replay).where(Replay.queue == queue, Replay.id == replay_id).execution_options(populate_existing=True)
    ).scalar_one_or_none()
    return None if replay is None else _progress(session, replay)


def named(session: Session, queue: str, name: str) -> Replay | None:
    """Return the only replay of this queue whose id in hex begins with `name`. Returns None if none or several do."""
    digits = name.replace("-", "").lower()
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    id_in_hex = func.replace(cast(Replay.id, Text), "-", "")
    found = session.execute(
        select(Replay).where(Replay.queue == queue, id_in_hex.startswith(digits)).limit(2)
    ).scalars()
    replays = found.all()
    return replays[0] if len(replays) == 1 else None


def running(session: Session, queue: str) -> int:
    """Count the replays of this queue that still run."""
    return session.execute(
        select(func.count()).where(Replay.queue == queue, Replay.state == ReplayState.RUNNING)
    ).scalar_one()


def items_of(session: Session, replay_id: uuid.UUID, *, limit: int) -> list[Item]:
    """Return the jobs of a replay in their order, with the outcome of each."""
    rows = session.execute(
        select(ReplayItem.job_id, ReplayItem.category, ReplayItem.outcome, ReplayItem.why, Job.state)
        .join(Job, Job.id == ReplayItem.job_id)
        .where(ReplayItem.replay_id == replay_id)
        .order_by(ReplayItem.position)
        .limit(limit)
    ).all()
    return [Item(*row[:4], State(row[4])) for row in rows]


def _progress(session: Session, replay: Replay) -> Progress:
    put_back = ReplayItem.outcome == ItemOutcome.REPLAYED
    counts = session.execute(
        select(
            func.count(),
            func.count().filter(put_back),
            func.count().filter(ReplayItem.outcome == ItemOutcome.LEFT_ALONE),
            func.count().filter(put_back, Job.state == State.SUCCEEDED),
            func.count().filter(put_back, Job.state == State.FAILED),
            func.count().filter(put_back, Job.finished_at.is_(None)),
        )
        .select_from(ReplayItem)
        .join(Job, Job.id == ReplayItem.job_id)
        .where(ReplayItem.replay_id == replay.id)
    ).one()
    return Progress(replay, *counts)
