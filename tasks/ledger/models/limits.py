"""The rows that limits are counted with. None of them is about a document, so deleting one gives nothing back."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base


class AccountLimits(Base):
    """What an operator allows one account. None: as the site allows everybody; 0: no limit."""

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
    """A job that was accepted within the last 24 hours. It outlives a job that is deleted, so that it still counts."""

    __tablename__ = "accepted_jobs"
    __table_args__ = (Index("accepted_jobs_of_an_account", "account_id", "at"),)

    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    account_id: Mapped[uuid.UUID]
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class TokensOfMonth(Base):
    """Tokens, in and out, that the AI service reported for an account in a month, which begins at midnight in UTC."""

    __tablename__ = "tokens_of_months"

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    begins_at: Mapped[datetime] = mapped_column(primary_key=True)
    tokens: Mapped[int] = mapped_column(BigInteger)
