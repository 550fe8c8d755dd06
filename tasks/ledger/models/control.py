"""The tables of what operators decide: gates, replays, and the audit log of all decisions."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import DDL, BigInteger, CheckConstraint, ForeignKey, Identity, Index, event, func, text
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.errors import Category
from tasks.ledger.models import Base, one_of


class Cause(StrEnum):
    """The reason for which an operator replays failed jobs."""

    CAUSE_FIXED = "cause_fixed"
    PROVIDER_RECOVERED = "provider_recovered"
    CREDENTIALS_RENEWED = "credentials_renewed"
    MISTAKE = "mistake"  # the jobs should not have failed
    OTHER = "other"  # the note explains it


class ReplayState(StrEnum):
    """The state of a replay."""

    RUNNING = "running"
    STOPPED = "stopped"  # early: by an operator, or because the same failure came back
    FINISHED = "finished"


class ItemOutcome(StrEnum):
    """The outcome of a replay for one job."""

    REPLAYED = "replayed"
    LEFT_ALONE = "left_alone"


class Decided(StrEnum):
    """The kinds of decision in the audit log."""

    PAUSE = "pause"
    DRAIN = "drain"
    RESUME = "resume"
    OPEN_LANE = "open_lane"
    REPLAY = "replay"
    STOP_REPLAY = "stop_replay"
    SET_LIMITS = "set_limits"
    DISABLE_ACCOUNT = "disable_account"
    ENABLE_ACCOUNT = "enable_account"
    REVOKE_TOKENS = "revoke_tokens"
    PROMOTE = "promote"
    DEMOTE = "demote"


class Gate(Base):
    """An operator's gate for the work of a queue. A queue without a row has an open gate that was never changed.

    `dispatch_stopped`: nothing more is sent to the queue. `claims_stopped`: no attempt begins either. `at_once` limits
    how many of the queue's jobs may be held at the same time; None: as many as the workers have slots.
    """

    __tablename__ = "gates"
    __table_args__ = (
        CheckConstraint("dispatch_stopped OR NOT claims_stopped", name="claims_stop_only_where_dispatch_has_stopped"),
        CheckConstraint("at_once > 0", name="at_least_one_at_once"),
    )

    queue: Mapped[str] = mapped_column(primary_key=True)
    dispatch_stopped: Mapped[bool] = mapped_column(default=False)
    claims_stopped: Mapped[bool] = mapped_column(default=False)
    at_once: Mapped[int | None]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    changed_by: Mapped[str]
    note: Mapped[str | None]


class Replay(Base):
    """A replay: failed jobs that an operator puts back, one after the other, at a limited rate.

    `category` and `code` are the filter by which the jobs were chosen, None if jobs were named. `next_at` is the time
    of the next job. `ended_because` is `done`, `operator` or `same_failure`, None while the replay runs.
    """

    __tablename__ = "replays"
    __table_args__ = (
        CheckConstraint(one_of("cause", Cause), name="replay_cause_is_known"),
        CheckConstraint(one_of("state", ReplayState), name="replay_state_is_known"),
        CheckConstraint("(state = 'running') = (ended_at IS NULL)", name="a_replay_that_ended_knows_when"),
        CheckConstraint("(ended_at IS NULL) = (ended_because IS NULL)", name="a_replay_that_ended_knows_why"),
        CheckConstraint("per_minute > 0", name="a_replay_has_a_rate"),
        Index("running_replays", "queue", "next_at", postgresql_where=text("state = 'running'")),
        Index("replays_newest_first", "queue", text("created_at DESC")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    queue: Mapped[str]
    cause: Mapped[str]
    note: Mapped[str]
    by: Mapped[str]
    category: Mapped[str | None]
    code: Mapped[str | None]
    per_minute: Mapped[int]
    state: Mapped[str] = mapped_column(default=ReplayState.RUNNING)
    next_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]
    ended_because: Mapped[str | None]
    ended_by: Mapped[str | None]  # the operator who stopped it; None if none did


class ReplayItem(Base):
    """A job of a replay. `category` is the failure before the replay; `why` is the reason if it was left alone.

    `outcome` is None until its turn comes. The outcome of a replayed job is in the job itself.
    """

    __tablename__ = "replay_items"
    __table_args__ = (
        CheckConstraint(one_of("outcome", ItemOutcome), name="item_outcome_is_known"),
        CheckConstraint(one_of("category", Category), name="item_category_is_known"),
        CheckConstraint("(outcome IS NULL) = (done_at IS NULL)", name="an_item_that_is_done_knows_when"),
        CheckConstraint("why IS NULL OR outcome = 'left_alone'", name="only_what_is_left_alone_has_a_reason"),
        Index("waiting_items_of_a_replay", "replay_id", "position", postgresql_where=text("outcome IS NULL")),
        Index("replay_items_of_a_job", "job_id"),
    )

    replay_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("replays.id", ondelete="CASCADE"), primary_key=True)
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int]
    category: Mapped[str | None]
    outcome: Mapped[str | None]
    why: Mapped[str | None]
    done_at: Mapped[datetime | None]


class Decision(Base):
    """A row of the audit log: which operator decided what, when and why. A trigger refuses every UPDATE and DELETE.

    `facts` holds counts, names of lanes and ids, never text of a user or a provider. `note` is the operator's text.
    """

    __tablename__ = "decisions"
    __table_args__ = (
        CheckConstraint(one_of("what", Decided), name="decision_is_known"),
        Index("decisions_of_a_queue", "queue", "id"),
        Index("decisions_about_an_account", text("(facts ->> 'account')"), "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    queue: Mapped[str]
    what: Mapped[str]
    by: Mapped[str]
    note: Mapped[str | None]
    facts: Mapped[dict[str, Any]]


APPEND_ONLY = (
    "CREATE FUNCTION refuse_to_change_the_past() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN RAISE EXCEPTION 'decisions are append only'; END$$",
    "CREATE TRIGGER decisions_are_append_only BEFORE UPDATE OR DELETE ON decisions "
    "FOR EACH ROW EXECUTE FUNCTION refuse_to_change_the_past()",
)
for statement in APPEND_ONLY:
    event.listen(Decision.__table__, "after_create", DDL(statement))  # type: ignore[no-untyped-call]
