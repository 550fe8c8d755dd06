"""The tables that hold the truth about every job. Redis may lose everything; these tables may not.

Constraints are named after the rule that they enforce. All times are set by the database's clock.
The owner of a job is an account id. The ledger does not know the accounts table; the web part adds the foreign keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tasks.ledger.errors import Category
from tasks.ledger.states import HELD, SETBACKS, TERMINAL, CallOutcome, Event, LaneState, Outcome, State

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Instant(TypeDecorator[datetime]):
    """A timestamp with time zone that is always read in UTC.

    A database or a role with another time zone returns times in that zone, and pages that say UTC would show them.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The declarative base, with one metadata for the ledger and for the tables that other packages add."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Instant,
        str: Text,
        dict[str, Any]: JSONB,
        bytes: LargeBinary,
    }


def one_of(column: str, words: Iterable[str]) -> str:
    """Return the SQL of a CHECK that allows only the given words in `column`, and NULL."""
    return f"{column} IN ({', '.join(sorted(repr(str(word)) for word in words))})"


class Document(Base):
    """A document, unchanged as it was handed in. One row per account and content.

    `content` is None after retention has deleted it. The row stays, so that the history can be read.
    """

    __tablename__ = "documents"
    __table_args__ = (UniqueConstraint("account_id", "fingerprint", name="one_document_per_account_and_content"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID]
    fingerprint: Mapped[str]
    filename: Mapped[str | None]
    kind: Mapped[str]
    size_bytes: Mapped[int]
    content: Mapped[bytes | None] = mapped_column(deferred=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Job(Base):
    """The work that a user has requested. Its state is the only truth about it. Only its user can delete it."""

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(one_of("state", State), name="state_is_known"),
        CheckConstraint(one_of("error_category", Category), name="error_category_is_known"),
        CheckConstraint(
            f"({one_of('state', TERMINAL)}) = (finished_at IS NOT NULL)", name="finished_if_and_only_if_terminal"
        ),
        CheckConstraint(
            f"({one_of('state', HELD)}) = "
            "(lease_expires_at IS NOT NULL AND reserved_until IS NOT NULL AND claimed_by IS NOT NULL)",
            name="held_if_and_only_if_being_worked_on",
        ),
        CheckConstraint(
            "(state = 'retry_wait') = (next_attempt_at IS NOT NULL)", name="next_attempt_known_while_waiting_to_retry"
        ),
        CheckConstraint("state <> 'failed' OR error_category IS NOT NULL", name="a_failed_job_has_a_cause"),
        CheckConstraint("lease_expires_at <= reserved_until", name="a_lease_ends_within_its_reservation"),
        CheckConstraint(
            "attempts >= 0 AND interruptions >= 0 AND generation >= 0", name="counters_do_not_go_below_zero"
        ),
        CheckConstraint("progress_done <= progress_total", name="progress_is_measured"),
        # The intent of a cancelled job may be accepted again, as a new job.
        Index(
            "one_job_per_operation",
            "operation_key",
            unique=True,
            postgresql_where=text("state <> 'cancelled'"),
        ),
        Index("jobs_of_an_account_newest_first", "account_id", text("created_at DESC"), text("id DESC")),
        Index("unfinished_jobs_of_an_account", "account_id", postgresql_where=text("finished_at IS NULL")),
        Index("jobs_about_a_document", "document_id"),  # without it, deleting a document reads all jobs
        # One index for each filter of the operator's list, newest first, so that a page costs the same at any length.
        Index("jobs_newest_first", text("created_at DESC"), text("id DESC")),
        Index("jobs_in_a_state_newest_first", "state", text("created_at DESC"), text("id DESC")),
        Index("jobs_of_a_workflow_newest_first", "workflow", text("created_at DESC"), text("id DESC")),
        Index(
            "jobs_with_a_cause_newest_first",
            "error_category",
            text("created_at DESC"),
            text("id DESC"),
            postgresql_where=text("error_category IS NOT NULL"),
        ),
        # For counting and replaying failed jobs by cause. It holds all columns of the count, so only the index is read.
        Index(
            "failed_jobs_by_cause",
            "queue",
            "error_category",
            "error_code",
            "created_at",
            postgresql_where=text("state = 'failed'"),
        ),
        Index("finished_jobs_by_end", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
        Index("held_jobs_by_lease", "lease_expires_at", postgresql_where=text("lease_expires_at IS NOT NULL")),
        Index("unfinished_jobs_by_deadline", "deadline_at", postgresql_where=text("finished_at IS NULL")),
        Index(
            "finished_jobs_with_content",
            "finished_at",
            postgresql_where=text("finished_at IS NOT NULL AND content_deleted_at IS NULL"),
        ),
        Index("failed_jobs_by_end", "queue", "finished_at", postgresql_where=text("state = 'failed'")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID]
    document_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("documents.id"))
    queue: Mapped[str]  # the queue of its deliveries; a drill on a real site uses another
    workflow: Mapped[str]
    workflow_version: Mapped[int]
    options: Mapped[dict[str, Any]]
    title: Mapped[str]
    operation_key: Mapped[str]
    fresh_run_key: Mapped[str | None]

    state: Mapped[str] = mapped_column(default=State.QUEUED)
    revision: Mapped[int] = mapped_column(default=1)  # grows with every change that a page shows
    generation: Mapped[int] = mapped_column(default=0)  # the fencing token: grows with each new claim
    attempts: Mapped[int] = mapped_column(default=0)  # ended attempts that count; interruptions do not
    max_attempts: Mapped[int]
    interruptions: Mapped[int] = mapped_column(default=0)
    suspicions: Mapped[int] = mapped_column(default=0, server_default=text("0"))  # worker deaths while it was read
    deliveries: Mapped[int] = mapped_column(default=0)  # the number of the newest delivery

    claimed_by: Mapped[str | None]
    claimed_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    reserved_until: Mapped[datetime | None]
    next_attempt_at: Mapped[datetime | None]
    deadline_at: Mapped[datetime]

    step: Mapped[str | None]
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_total: Mapped[int] = mapped_column(default=0)  # 0: not known yet

    error_category: Mapped[str | None]
    error_code: Mapped[str | None]
    email_when_done: Mapped[bool | None]  # None: the account's preference applies

    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    content_deleted_at: Mapped[datetime | None]  # by retention; the job cannot be replayed from then on


class Submission(Base):
    """A client's idempotency key and the job that its request led to, so that a repeated request finds that job.

    Deleted together with the content of the job: the key is known for as long as there is something to return.
    """

    __tablename__ = "submissions"

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    idempotency_key: Mapped[str] = mapped_column(primary_key=True)
    request_fingerprint: Mapped[str]
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Delivery(Base):
    """A queue message that is owed. The claim deletes the row, so a delivery with a row is still owed.

    `due_at` is when the dispatcher sends it (again), and `not_before` the earliest time for a claim. `dispatched_at` is
    None until it was sent under this number. `lane` names the closed lane that it waits for, None if there is none.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("deliveries_by_due_time", "queue", "due_at"),
        Index("deliveries_handed_over", "queue", postgresql_where=text("dispatches > 0")),
        Index("deliveries_waiting_for_a_lane", "lane", postgresql_where=text("lane IS NOT NULL")),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    queue: Mapped[str]
    number: Mapped[int]
    due_at: Mapped[datetime]
    not_before: Mapped[datetime]
    dispatched_at: Mapped[datetime | None]
    dispatches: Mapped[int] = mapped_column(default=0)
    lane: Mapped[str | None]


class Attempt(Base):
    """The work of one claim. Inserted with the claim, closed once, and not changed after that."""

    __tablename__ = "attempts"
    __table_args__ = (
        # No attempt ends as `refused` any more: if a claim is lost, the reconciler has closed its attempt as lost. The
        # CHECK still allows the word, since PostgreSQL would lock and scan the table for a narrower one.
        CheckConstraint(one_of("outcome", [*Outcome, "refused"]), name="attempt_outcome_is_known"),
        CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="an_ended_attempt_has_an_outcome"),
        Index("ended_attempts_by_end", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
        Index("one_open_attempt_per_job", "job_id", unique=True, postgresql_where=text("ended_at IS NULL")),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]  # among the counted attempts; after an interruption the next generation has the same number
    worker: Mapped[str]
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    error_category: Mapped[str | None]
    error_code: Mapped[str | None]


class Checkpoint(Base):
    """The saved answer of a step. A later attempt reads it instead of doing, and paying for, the step again."""

    __tablename__ = "checkpoints"

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int]
    text: Mapped[str]
    facts: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ProviderCall(Base):
    """One request to the AI provider. The row is committed before the request starts."""

    __tablename__ = "provider_calls"
    __table_args__ = (
        CheckConstraint(one_of("outcome", CallOutcome), name="call_outcome_is_known"),
        CheckConstraint("(outcome = 'open') = (ended_at IS NULL)", name="an_ended_call_has_an_outcome"),
        Index("calls_of_a_job", "job_id", "started_at"),
        Index("calls_by_start", "started_at"),
        Index("open_calls", "lane", postgresql_where=text("outcome = 'open'")),
        Index(
            "responses_kept_by_the_provider",
            "lane",
            "started_at",
            postgresql_where=text("background AND response_deleted_at IS NULL AND outcome <> 'open'"),
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    generation: Mapped[int]
    step: Mapped[str]
    lane: Mapped[str]
    provider: Mapped[str]
    model: Mapped[str]
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str] = mapped_column(default=CallOutcome.OPEN)
    error_category: Mapped[str | None]
    error_code: Mapped[str | None]
    http_status: Mapped[int | None]
    request_id: Mapped[str | None]  # set by the provider, for questions to its support
    # The provider's id of a background response. While the call is open, it can be polled by this id.
    response_id: Mapped[str | None]
    background: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    response_deleted_at: Mapped[datetime | None]  # None: the provider may still have it
    input_tokens: Mapped[int | None]  # None: not reported
    output_tokens: Mapped[int | None]


class LeftResponse(Base):
    """A response that the provider still had when its job or the job's content was deleted here.

    It is to be cancelled and deleted at the provider. The row says nothing about the job or its owner.
    """

    __tablename__ = "left_responses"

    response_id: Mapped[str] = mapped_column(primary_key=True)
    lane: Mapped[str]
    left_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Result(Base):
    """The result of a job. The primary key allows at most one. Retention deletes it."""

    __tablename__ = "results"

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    generation: Mapped[int]
    text: Mapped[str]
    facts: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class JobEvent(Base):
    """An event of a job. Rows are only added; `facts` never holds text of a user or a provider."""

    __tablename__ = "events"
    __table_args__ = (
        CheckConstraint(one_of("event", Event), name="event_is_known"),
        Index("events_of_a_job", "job_id", "id"),
        Index("setbacks_by_time", "at", postgresql_where=text(one_of("event", SETBACKS))),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    event: Mapped[str]
    state: Mapped[str]  # the state after the event
    generation: Mapped[int]
    facts: Mapped[dict[str, Any]]


class Lane(Base):
    """The circuit breaker of one provider. A lane without a row is open and was never closed.

    `until` is the end of a cool-down. While `probing`, the cool-down is over and one call is probing; `until` is then
    the time at which the next call may probe. `strikes` counts the cool-downs in a row. `changed_by` is the operator,
    None if the lane was closed or opened by a call.
    """

    __tablename__ = "lanes"
    __table_args__ = (
        CheckConstraint(one_of("state", LaneState), name="lane_state_is_known"),
        CheckConstraint("(state = 'cooling') = (until IS NOT NULL)", name="a_cooling_lane_knows_until_when"),
        CheckConstraint("(state = 'open') = (category IS NULL)", name="a_closed_lane_has_a_cause"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    until: Mapped[datetime | None]
    probing: Mapped[bool] = mapped_column(default=False)
    strikes: Mapped[int] = mapped_column(default=0)
    category: Mapped[str | None]
    code: Mapped[str | None]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    changed_by: Mapped[str | None]
