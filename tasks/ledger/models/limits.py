"""The tables of limits and usage. They do not refer to documents, so deleting a document does not reduce the usage."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base


class AccountLimits(Base):
    """The limits that an operator has set for an account. None: the site's limit applies; 0: no limit."""

    __tablename__ = "account_limits"
    __table_args__ = (
        CheckConstraint(
            "jobs_per_day >= 0 AND jobs_at_once >= 0 AND tokens_per_month >= 0", name="limits_do_not_go_below_zero"
        ),
    )

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    jobs_per_day: Mapped[int | None]
    jobs_at_once: Mapped[int | None]
    tokens_per_month: Mapped[int | None] = mapped_column(BigInteger)
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AcceptedJob(Base):
    """A job that was accepted within the last 24 hours. It still counts if the job is deleted, so the row stays."""

    __tablename__ = "accepted_jobs"
    __table_args__ = (Index("accepted_jobs_of_an_account", "account_id", "at"),)

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    account_id: Mapped[uuid.UUID]
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class TokensOfMonth(Base):
    """The input and output tokens that the AI service reported for an account in a month, which begins at 0:00 UTC."""

    __tablename__ = "tokens_of_months"

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    begins_at: Mapped[datetime] = mapped_column(primary_key=True)
    tokens: Mapped[int] = mapped_column(BigInteger)
