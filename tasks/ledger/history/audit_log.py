"""The append-only record of what operators decided. No code changes or deletes a row, and a trigger refuses it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tasks.ledger.models.control import Decided, Decision


def record(session: Session, queue: str, what: Decided, *, by: str, note: str | None, **facts: object) -> None:
    """Record an operator's decision: who decided what, and why. Facts that are None are left out."""
    session.execute(
        insert(Decision).values(
            queue=queue,
            what=what,
            by=by,
            note=note or None,
            facts={key: value for key, value in facts.items() if value is not None},
        )
    )


def about_account(session: Session, account_id: uuid.UUID, *, limit: int) -> Sequence[Decision]:
    """Return the decisions about one account, newest first."""
    statement = select(Decision).where(Decision.facts["account"].astext == str(account_id))
    return session.execute(statement.order_by(Decision.id.desc()).limit(limit)).scalars().all()


def newest(session: Session, queue: str, *, limit: int, before: int | None = None) -> Sequence[Decision]:
    """Return the decisions about this queue, newest first. `before` is the id of the last decision already shown."""
    statement = select(Decision).where(Decision.queue == queue)
    if before is not None:
        statement = statement.where(Decision.id < before)
    return session.execute(statement.order_by(Decision.id.desc()).limit(limit)).scalars().all()
