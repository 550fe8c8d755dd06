"""The views of jobs for pages, the API, operators and loops. Nothing here writes.

The owner is checked in the query, not after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, Uuid, exists, func, or_, select, text, true, tuple_
from sqlalchemy.orm import Session, undefer

from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.lost_claims import is_orphan
from tasks.ledger.models import (
    Attempt,
    Checkpoint,
    Delivery,
    Document,
    Job,
    JobEvent,
    Lane,
    ProviderCall,
    Result,
)
from tasks.ledger.models.workers import Worker
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import READ_STEP, TERMINAL, CallOutcome, LaneState, State
from tasks.ledger.terms import RenewalTimes


@dataclass(frozen=True)
class JobView:
    """All that a status page or the API shows of a job, read with one statement. Times are by the database's clock.

    `now` is the time of the read. `next_attempt_at` is None unless the job waits to retry. `read_facts` is None until
    the document was read. `unknown_calls` counts the calls that may have been billed without a response, and
    `at_provider` the background calls that the provider still works on.
    """

    id: uuid.UUID
    title: str
    workflow: str
    workflow_version: int
    options: Mapping[str, Any]
    state: State
    revision: int
    attempt: int
    max_attempts: int
    step: str | None
    progress_done: int
    progress_total: int
    next_attempt_at: datetime | None
    deadline_at: datetime
    error_category: str | None
    error_code: str | None
    created_at: datetime
    started_at: datetime | None
    claimed_at: datetime | None
    finished_at: datetime | None
    content_deleted_at: datetime | None
    now: datetime
    document_id: uuid.UUID
    filename: str | None
    kind: str
    size_bytes: int
    original_kept: bool
    read_facts: Mapping[str, Any] | None
    unknown_calls: int
    at_provider: int
    fresh: bool

    @property
    def place(self) -> tuple[datetime, uuid.UUID]:
        """Return the job's cursor in a list that is newest first."""
        return self.created_at, self.id

    @property
    def finished(self) -> bool:
        """Return True if the job has ended, and changes only if it is replayed."""
        return self.state in TERMINAL

    @property
    def days_kept(self) -> int:
        """Return for how many whole days after its end the content was kept; 0 while it is still kept."""
        if self.content_deleted_at is None or self.finished_at is None:
            return 0
        return (self.content_deleted_at - self.finished_at).days


@dataclass(frozen=True)
class LaneWait:
    """The cause for which the job's lane is closed, and the end of the wait. `stopped`: until an operator acts."""

    category: str
    code: str | None
    stopped: bool
    until: datetime


def _job_columns() -> Select[Any]:
    unknown = (
        select(func.count())
        .where(ProviderCall.job_id == Job.id, ProviderCall.outcome == CallOutcome.UNKNOWN)
        .scalar_subquery()
    )
    at_provider = (
        select(func.count())
        .where(
            ProviderCall.job_id == Job.id,
            ProviderCall.outcome == CallOutcome.OPEN,
            ProviderCall.response_id.is_not(None),
        )
        .scalar_subquery()
    )
    read_facts = (
        select(Checkpoint.facts).where(Checkpoint.job_id == Job.id, Checkpoint.step == READ_STEP).scalar_subquery()
    )
    return select(
        *Job.__table__.columns,
        func.now().label("now"),
        Document.filename,
        Document.kind,
        Document.size_bytes,
        Document.content.is_not(None).label("original_kept"),
        read_facts.label("read_facts"),
        unknown.label("unknown_calls"),
        at_provider.label("at_provider"),
    ).join(Document, Document.id == Job.document_id)


def _in_utc(time: Any) -> Any:
    """Return a time in UTC. The server writes it in its own time zone, and pages that say UTC would show that."""
    return None if time is None else time.astimezone(UTC)


def _view(row: Row[Any]) -> JobView:
    """Return the view of a row of `_job_columns`, which may come from the driver as it is."""
    state = State(row.state)
    shows_next_attempt = state in TERMINAL or state is State.RETRY_WAIT
    return JobView(
        id=row.id,
        title=row.title,
        workflow=row.workflow,
        workflow_version=row.workflow_version,
        options=row.options,
        state=state,
        revision=row.revision,
        attempt=row.attempts if state in TERMINAL else min(row.attempts + 1, row.max_attempts),
        max_attempts=row.max_attempts,
        step=row.step,
        progress_done=row.progress_done,
        progress_total=row.progress_total,
        next_attempt_at=_in_utc(row.next_attempt_at) if shows_next_attempt else None,
        deadline_at=_in_utc(row.deadline_at),
        error_category=row.error_category,
        error_code=row.error_code,
        created_at=_in_utc(row.created_at),
        started_at=_in_utc(row.started_at),
        claimed_at=_in_utc(row.claimed_at),
        finished_at=_in_utc(row.finished_at),
        content_deleted_at=_in_utc(row.content_deleted_at),
        now=_in_utc(row.now),
        document_id=row.document_id,
        filename=row.filename,
        kind=row.kind,
        size_bytes=row.size_bytes,
        original_kept=row.original_kept,
        read_facts=row.read_facts,
        unknown_calls=row.unknown_calls,
        at_provider=row.at_provider,
        fresh=row.fresh_run_key is not None,
    )


_ANY_JOB = CompiledStatement(_job_columns().where(Job.id == parameter("job_id", Uuid())))
_JOB_OF_ACCOUNT = CompiledStatement(
    _job_columns().where(Job.id == parameter("job_id", Uuid()), Job.account_id == parameter("account_id", Uuid()))
)


def job_of(on: Connection | Session, job_id: uuid.UUID, account_id: uuid.UUID) -> JobView | None:
    """Return the owner's view of a job. Returns None if it does not exist or belongs to another account."""
    row = _JOB_OF_ACCOUNT.execute(on, job_id=job_id, account_id=account_id).one_or_none()
    return None if row is None else _view(row)


def any_job(session: Session, job_id: uuid.UUID) -> JobView | None:
    """Return the view of a job of whatever account, for operators. Returns None if it does not exist."""
    row = _ANY_JOB.execute(session, job_id=job_id).one_or_none()
    return None if row is None else _view(row)


def lane_wait_of(on: Connection | Session, job_id: uuid.UUID) -> LaneWait | None:
    """Return the closed lane that this job waits for. Returns None if it waits for none."""
    return lane_waits_of(on, [job_id]).get(job_id)


def lane_waits_of(on: Connection | Session, job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, LaneWait]:
    """Return the closed lane of each of these jobs that waits for one."""
    rows = on.execute(
        select(Delivery.job_id, Lane.category, Lane.code, Lane.state == LaneState.STOPPED, Delivery.not_before)
        .join(Delivery, Delivery.lane == Lane.name)
        .where(Delivery.job_id.in_(job_ids), Lane.category.is_not(None))
    ).all()
    return {
        job_id: LaneWait(category=category, code=code, stopped=stopped, until=until)
        for job_id, category, code, stopped, until in rows
        if category is not None
    }


def jobs_of(
    session: Session,
    account_id: uuid.UUID,
    *,
    limit: int,
    before: tuple[datetime, uuid.UUID] | None = None,
    states: Collection[State] | None = None,
    words: str | None = None,
    among: Select[uuid.UUID] | None = None,
) -> list[JobView]:
    """Return the account's jobs, newest first. `before` is the `(created_at, id)` of the last job already shown.

    `states`, `words` and `among` restrict the jobs to some states, to titles that contain the words in upper or lower
    case, and to the ids that a query selects. None: no restriction.
    """
    statement = _job_columns().where(Job.account_id == account_id)
    if before is not None:
        statement = statement.where(tuple_(Job.created_at, Job.id) < tuple_(*before))
    if among is not None:
        statement = statement.where(Job.id.in_(among))
    if states is not None:
        statement = statement.where(Job.state.in_(states))
    if words is not None:
        statement = statement.where(Job.title.icontains(words, autoescape=True))
    rows = session.execute(
        statement.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit).execution_options(populate_existing=True)
    ).all()
    return [_view(row) for row in rows]


def jobs(session: Session, *, state: State | None, category: str | None, limit: int) -> list[JobView]:
    """Return the jobs of all accounts for operators, newest first."""
    statement = _job_columns()
    if state is not None:
        statement = statement.where(Job.state == state)
    if category is not None:
        statement = statement.where(Job.error_category == category)
    rows = session.execute(statement.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)).all()
    return [_view(row) for row in rows]


def owner_of(session: Session, job_id: uuid.UUID) -> uuid.UUID:
    """Return the id of the account that owns the job."""
    return session.execute(select(Job.account_id).where(Job.id == job_id)).scalar_one()


def result_of(session: Session, job_id: uuid.UUID, account_id: uuid.UUID | None) -> Result | None:
    """Return the result of a job, or None. `account_id` None means any account, for workers and operators."""
    owner = true() if account_id is None else Job.account_id == account_id
    return session.execute(
        select(Result).join(Job, Job.id == Result.job_id).where(Result.job_id == job_id, owner)
    ).scalar_one_or_none()


def original_of(session: Session, job_id: uuid.UUID, account_id: uuid.UUID | None) -> Document | None:
    """Return the document of a job with its content, which is None if deleted. `account_id` None means any account."""
    owner = true() if account_id is None else Job.account_id == account_id
    return session.execute(
        select(Document)
        .join(Job, Job.document_id == Document.id)
        .where(Job.id == job_id, owner)
        .options(undefer(Document.content))
    ).scalar_one_or_none()


def beginning_of(session: Session, job_id: uuid.UUID, account_id: uuid.UUID, length: int) -> str | None:
    """Return the first `length` characters of the text of the owner's document. Returns None until it was read."""
    return session.execute(
        select(func.left(Checkpoint.text, length))
        .join(Job, Job.id == Checkpoint.job_id)
        .where(Job.id == job_id, Job.account_id == account_id, Checkpoint.step == READ_STEP)
    ).scalar_one_or_none()


def spending_of(
    session: Session, job_ids: Collection[uuid.UUID], account_id: uuid.UUID
) -> dict[uuid.UUID, list[ProviderCall]]:
    """Return the provider calls of these jobs of the account, oldest first. A job without calls has an empty list."""
    found: dict[uuid.UUID, list[ProviderCall]] = {job_id: [] for job_id in job_ids}
    for call in session.execute(
        select(ProviderCall)
        .join(Job, Job.id == ProviderCall.job_id)
        .where(Job.id.in_(job_ids), Job.account_id == account_id)
        .order_by(ProviderCall.started_at, ProviderCall.id)
        .execution_options(populate_existing=True)
    ).scalars():
        found[call.job_id].append(call)
    return found


def events_of(session: Session, job_id: uuid.UUID) -> Sequence[JobEvent]:
    """Return the job's events, oldest first."""
    return session.execute(select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.id)).scalars().all()


def attempts_of(session: Session, job_id: uuid.UUID) -> Sequence[Attempt]:
    """Return the job's attempts, oldest first."""
    return session.execute(select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.generation)).scalars().all()


def calls_of(session: Session, job_id: uuid.UUID) -> Sequence[ProviderCall]:
    """Return the job's provider calls, oldest first."""
    return (
        session.execute(select(ProviderCall).where(ProviderCall.job_id == job_id).order_by(ProviderCall.started_at))
        .scalars()
        .all()
    )


def orphans(
    session: Session, *, renewal: RenewalTimes | None = None, grace_seconds: float = 0, queue: str | None = None
) -> int:
    """Count the unfinished jobs that have neither a delivery nor a worker. It must be 0, else something is broken.

    `renewal` says when a claim counts as lost; None: by its lease alone, `grace_seconds` after its end. `queue` None:
    all queues.
    """
    owed = exists().where(Delivery.job_id == Job.id)
    return session.execute(
        select(func.count())
        .select_from(Job)
        .where(
            Job.finished_at.is_(None),
            ~owed,
            is_orphan(renewal, grace_seconds),
            true() if queue is None else Job.queue == queue,
        )
    ).scalar_one()


def jobs_by_state(session: Session) -> dict[State, int]:
    """Count the jobs by state; every state is in the result. Finished jobs count if they ended in the last 24 hours.

    Counting all finished jobs would take longer the older the site is.
    """
    ended_recently = Job.finished_at > func.now() - seconds(24 * 3600)
    rows = session.execute(
        select(Job.state, func.count()).where(or_(Job.finished_at.is_(None), ended_recently)).group_by(Job.state)
    ).all()
    found = {state: count for state, count in rows}
    return {state: found.get(state, 0) for state in State}


def live_workers(session: Session, *, queue: str, seen_within_seconds: float) -> int:
    """Count the workers of this queue whose last heartbeat is at most `seen_within_seconds` ago."""
    return session.execute(
        select(func.count()).where(
            Worker.queue == queue, Worker.left_at.is_(None), Worker.seen_at > func.now() - seconds(seen_within_seconds)
        )
    ).scalar_one()


def schema_version(session: Session) -> str | None:
    """Return the version of the newest migration in the database. Returns None before the first."""
    there = session.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL")).scalar_one()
    if not there:
        return None
    return session.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
