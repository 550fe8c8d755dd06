"""The rows of what is told to people and programs outside: messages that are owed, who wants them, and alerts."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base, one_of


class Channel(StrEnum):
    """By which way a notice travels."""

    EMAIL = "email"
    WEBHOOK = "webhook"


class AlertKind(StrEnum):
    """What an operator is alerted to."""

    QUEUE_AGE = "queue_age"  # work waits for a free worker for too long
    FAILURES = "failures"  # too many jobs failed within the hour of causes that lie with the site
    ORPHANS = "orphans"  # an unfinished job is owed nothing and held by nobody
    LANE_STOPPED = "lane_stopped"  # the way to the AI provider is closed until an operator resumes it


UNSETTLED = "sent_at IS NULL AND gave_up_at IS NULL"


class Notice(Base):
    """A message that is owed to somebody outside. At least once: the receiver drops a repeat by its `key`.

    `what` is the event's name, such as `job.succeeded`; `facts` holds what the message says of it, and is emptied once
    the notice is settled. `expires_at` is when it has become useless, None: never before the sender gives up.
    `account_id` and `job_id` None: it is about none. `error_code` tells how the last try failed, in a word.
    """

    __tablename__ = "notices"
    __table_args__ = (
        CheckConstraint(one_of("channel", Channel), name="notice_channel_is_known"),
        CheckConstraint("sent_at IS NULL OR gave_up_at IS NULL", name="a_notice_is_sent_or_given_up"),
        Index("notices_by_due_time", "queue", "channel", "due_at", postgresql_where=text(UNSETTLED)),
        Index(
            "notices_of_an_account",
            "account_id",
            "channel",
            text("created_at DESC"),
            postgresql_where=text("account_id IS NOT NULL"),
        ),
        Index("notices_of_a_job", "job_id", postgresql_where=text("job_id IS NOT NULL")),
        Index("settled_notices_by_age", "created_at", postgresql_where=text(f"NOT ({UNSETTLED})")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    key: Mapped[str] = mapped_column(unique=True)
    queue: Mapped[str]
    account_id: Mapped[uuid.UUID | None]
    job_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    channel: Mapped[str]
    target: Mapped[str]
    what: Mapped[str]
    facts: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    tries: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    sent_at: Mapped[datetime | None]
    gave_up_at: Mapped[datetime | None]
    error_code: Mapped[str | None]


class NoticeWish(Base):
    """What an account wants to be told. No row: nothing. `email` is the address, None until its owner confirmed it.

    `webhook_secret` signs what goes to `webhook_url`; it is shown to its owner once, and has to be kept to sign with.
    `webhook_gone_url` was switched off, since its receiver said at `webhook_gone_at` that it is gone for good.
    `language` is what the mails are written in, None: English.
    """

    __tablename__ = "notice_wishes"
    __table_args__ = (
        CheckConstraint("(webhook_url IS NULL) = (webhook_secret IS NULL)", name="a_webhook_has_a_secret"),
    )

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    email: Mapped[str | None]
    email_on: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    language: Mapped[str | None]
    webhook_url: Mapped[str | None]
    webhook_secret: Mapped[str | None]
    webhook_gone_url: Mapped[str | None]
    webhook_gone_at: Mapped[datetime | None]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Alert(Base):
    """A limit that was passed. Open while `ended_at` is None; `calm_since` is when it was last seen to be kept again.

    `told_at` is when the operator was last told of it. `facts` holds what was measured then.
    """

    __tablename__ = "alerts"
    __table_args__ = (
        CheckConstraint(one_of("kind", AlertKind), name="alert_kind_is_known"),
        Index("one_open_alert_of_a_kind", "queue", "kind", unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("alerts_by_age", "queue", "began_at"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    queue: Mapped[str]
    kind: Mapped[str]
    facts: Mapped[dict[str, Any]]
    began_at: Mapped[datetime] = mapped_column(server_default=func.now())
    told_at: Mapped[datetime] = mapped_column(server_default=func.now())
    calm_since: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
