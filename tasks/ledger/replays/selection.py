"""The selection of jobs for a replay, and what the replay would do with each. Nothing here writes: the dry run."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, exists, func, select, true
from sqlalchemy.orm import Session

from tasks.ledger import states
from tasks.ledger.models import Checkpoint, Document, Job
from tasks.ledger.models.control import Replay, ReplayItem, ReplayState
from tasks.ledger.states import READ_STEP, State

MAX_JOBS = 1_000

WAITING, RUNNING, FINISHED, CANCELLED = "waiting", "running", "finished", "cancelled"
DOCUMENT_DELETED, IN_ANOTHER_REPLAY = "document_deleted", "in_another_replay"
"""Name the reasons for which a job is left alone."""


@dataclass(frozen=True)
class Choice:
    """The choice of jobs: those in `jobs`, or all that failed with `category`, and with `code` if it is not None."""

    jobs: Collection[uuid.UUID] = ()
    category: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A chosen job. `why` is the reason for which it would be left alone; None: it would be put back."""

    job_id: uuid.UUID
    state: State
    category: str | None
    code: str | None
    created_at: datetime
    why: str | None


@dataclass
class Group:
    """A summary of what a replay would do with the jobs of one category. `category` None: they have not failed."""

    category: str | None
    oldest: datetime
    replayed: int = 0
    left_alone: dict[str, int] = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        """Return the number of jobs in the group."""
        return self.replayed + sum(self.left_alone.values())


def evaluate(session: Session, queue: str, choice: Choice) -> list[Verdict]:
    """Return what a replay of these jobs would do, job by job, the oldest first, at most `MAX_JOBS`."""
    chosen = select(Job.id).where(Job.queue == queue)
    if choice.category is None:
        chosen = chosen.where(Job.id.in_(choice.jobs))
    else:
        chosen = chosen.where(Job.state == State.FAILED, Job.error_category == choice.category)
        if choice.code is not None:
            chosen = chosen.where(Job.error_code == choice.code)
    # The jobs are limited before each is evaluated, so the cost does not grow with the number of failed jobs.
    chosen = chosen.order_by(Job.created_at, Job.id).limit(MAX_JOBS)
    statement = evaluated_jobs().where(Job.id.in_(chosen.scalar_subquery()))
    rows = session.execute(statement.order_by(Job.created_at, Job.id)).all()
    return [Verdict(row[0], State(row[1]), *row[2:]) for row in rows]


def grouped(judged: Sequence[Verdict]) -> list[Group]:
    """Return the jobs summarised by category, the largest group first."""
    groups: dict[str | None, Group] = {}
    for job in judged:
        category = job.category if job.state is State.FAILED else None
        group = groups.setdefault(category, Group(category, job.created_at))
        group.oldest = min(group.oldest, job.created_at)
        if job.why is None:
            group.replayed += 1
        else:
            group.left_alone[job.why] = group.left_alone.get(job.why, 0) + 1
    return sorted(groups.values(), key=lambda group: -group.jobs)


def failures(session: Session, queue: str) -> Sequence[tuple[str, str | None, int, datetime]]:
    """Return the failed jobs by cause: category, code, their number, and when the oldest was handed in."""
    rows = session.execute(
        select(Job.error_category, Job.error_code, func.count(), func.min(Job.created_at))
        .where(Job.queue == queue, Job.state == State.FAILED)
        .group_by(Job.error_category, Job.error_code)
        .order_by(func.count().desc(), Job.error_category)
    ).all()
    return [(str(row[0]), row[1], row[2], row[3]) for row in rows]


def evaluated_jobs(*, without: uuid.UUID | None = None) -> Select[Any]:
    """Return a query of jobs with `why`, the reason for which a replay leaves each alone, NULL if it does not.

    `without` is the replay that asks: it is not counted as another replay of the job.
    """
    in_another_replay = exists().where(
        ReplayItem.job_id == Job.id,
        ReplayItem.outcome.is_(None),
        Replay.id == ReplayItem.replay_id,
        Replay.state == ReplayState.RUNNING,
        true() if without is None else Replay.id != without,
    )
    # The text that was read replaces a deleted document. octet_length() does not decompress the stored text.
    text_kept = exists().where(
        Checkpoint.job_id == Job.id, Checkpoint.step == READ_STEP, func.octet_length(Checkpoint.text) > 0
    )
    why = case(
        (Job.state.in_(list(states.WAITING)), WAITING),
        (Job.state.in_(list(states.HELD)), RUNNING),
        (Job.state == State.SUCCEEDED, FINISHED),
        (Job.state == State.CANCELLED, CANCELLED),
        (in_another_replay, IN_ANOTHER_REPLAY),
        (Document.content.is_(None) & ~text_kept, DOCUMENT_DELETED),
        else_=None,
    )
    return select(Job.id, Job.state, Job.error_category, Job.error_code, Job.created_at, why.label("why")).join(
        Document, Document.id == Job.document_id
    )
