"""The tables of notifications: those that are owed, the preferences of accounts, and alerts for operators."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base, one_of


class Channel(StrEnum):
    """The channel on which a notification is sent."""

    EMAIL = "email"
    WEBHOOK = "webhook"


class AlertKind(StrEnum):
    """The conditions that alert an operator."""

    QUEUE_AGE = "queue_age"  # a job waits too long for a free worker
    FAILURES = "failures"  # too many jobs failed within an hour for causes that lie with the site
    ORPHANS = "orphans"  # an unfinished job has neither a delivery nor a worker
    LANE_STOPPED = "lane_stopped"  # the lane to the AI provider is closed until an operator resumes it
    LANE_COOLING = "lane_cooling"  # the AI provider asked for a long wait


UNSETTLED = "sent_at IS NULL AND gave_up_at IS NULL"


class Notice(Base):
    """A notification by e-mail or webhook. It is sent at least once; the receiver drops a repeat by its `key`.

    `what` is the name of the event, such as `job.succeeded`. `facts` holds the content, and is emptied when the
    notification was sent or given up. `expires_at` is when it becomes useless; None: when the sender gives up.
    `account_id` and `job_id` are None if it is not about an account or a job. `error_code` is the failure of the last
    try, in a word.
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
    """The notification preferences of an account. An account without a row gets no notifications.

    `email` is the address, None until the user has confirmed it. `webhook_secret` signs what is sent to `webhook_url`;
    it is shown to the user once, and stored because it is needed for signing. `webhook_gone_url` was turned off because
    its receiver answered at `webhook_gone_at` that it is gone for good. `language` is that of the mails, None: English.
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
    """An alert: a threshold of the site that was exceeded. It is open while `ended_at` is None.

    `calm_since` is when the value was first found within the threshold again, None while it is not. `told_at` is the
    time of the last notification to the operator, and `facts` holds what was measured then.
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
