"""Accounts that an operator has disabled: no attempt begins for them. Functions never commit.

A running attempt is finished, since it is paid for already. A waiting job stays waiting until the account is enabled
again, or fails at its deadline.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.models import Delivery, Job
from tasks.ledger.models.accounts import DisabledAccount


def is_disabled(account_id: Any) -> ColumnElement[bool]:
    """Return the SQL condition that the account in this column is disabled."""
    return exists().where(DisabledAccount.account_id == account_id)


def is_held() -> ColumnElement[bool]:
    """Return the SQL condition that a delivery belongs to a job of a disabled account.

    It is a list that PostgreSQL builds once per statement and that is mostly empty, since there may be many deliveries.
    """
    of_account = Job.account_id == DisabledAccount.account_id
    return Delivery.job_id.in_(select(Job.id).join(DisabledAccount, of_account).where(Job.finished_at.is_(None)))


def disable(session: Session, account_id: uuid.UUID) -> bool:
    """Disable an account. Returns False if it was disabled. Raises IntegrityError if there is no such account."""
    statement = insert(DisabledAccount).values(account_id=account_id).on_conflict_do_nothing()
    return bool(session.execute(statement.returning(DisabledAccount.account_id)).all())


def enable(session: Session, account_id: uuid.UUID) -> bool:
    """Enable an account again, so that its waiting jobs may begin. Returns False if it was not disabled."""
    statement = delete(DisabledAccount).where(DisabledAccount.account_id == account_id)
    return bool(session.execute(statement.returning(DisabledAccount.account_id)).all())


def disabled_among(session: Session, account_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of these accounts that are disabled."""
    found = select(DisabledAccount.account_id).where(DisabledAccount.account_id.in_(account_ids))
    return set(session.execute(found).scalars())


def disabled_since(session: Session, account_id: uuid.UUID) -> datetime | None:
    """Return the time at which an account was disabled. Returns None if it is not disabled."""
    return session.execute(
        select(DisabledAccount.disabled_at).where(DisabledAccount.account_id == account_id)
    ).scalar_one_or_none()
