"""Accounts that an operator has disabled: nothing new is begun for them. Functions never commit.

What is being worked on is finished, since it is paid for already. What waits goes on waiting, and goes on when the
account is enabled again, or ends at its deadline.
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
    """Ask, as a part of a statement, whether the account in this column is disabled."""
    return exists().where(DisabledAccount.account_id == account_id)


def is_held() -> ColumnElement[bool]:
    """Ask whether a delivery is of a job whose account is disabled.

    By a list that is made once a statement, and mostly empty: there may be many deliveries.
    """
    of_account = Job.account_id == DisabledAccount.account_id
    return Delivery.job_id.in_(select(Job.id).join(DisabledAccount, of_account).where(Job.finished_at.is_(None)))


def disable(session: Session, account_id: uuid.UUID) -> bool:
    """Disable an account. False: it was already. Raises IntegrityError when there is no such account."""
    statement = insert(DisabledAccount).values(account_id=account_id).on_conflict_do_nothing()
    return bool(session.execute(statement.returning(DisabledAccount.account_id)).all())


def enable(session: Session, account_id: uuid.UUID) -> bool:
    """Enable an account again: its waiting jobs may be begun. False: it was not disabled."""
    statement = delete(DisabledAccount).where(DisabledAccount.account_id == account_id)
    return bool(session.execute(statement.returning(DisabledAccount.account_id)).all())


def disabled_among(session: Session, account_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Say which of these accounts are disabled."""
    found = select(DisabledAccount.account_id).where(DisabledAccount.account_id.in_(account_ids))
    return set(session.execute(found).scalars())


def disabled_since(session: Session, account_id: uuid.UUID) -> datetime | None:
    """Say since when an account is disabled; None: it is not."""
    return session.execute(
        select(DisabledAccount.disabled_at).where(DisabledAccount.account_id == account_id)
    ).scalar_one_or_none()
