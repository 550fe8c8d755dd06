"""What a sweep looks for: rows that are no longer true, since somebody fell silent. Read only."""

from __future__ import annotations

import uuid

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from tasks.ledger.models import Delivery, Job


def expired_claims(session: Session, *, queue: str, limit: int) -> list[uuid.UUID]:
    """Held jobs whose lease is over by the database's clock. A constraint: no lease outlasts its reservation."""
    return list(
        session.execute(
            select(Job.id)
            .where(Job.queue == queue, Job.lease_expires_at <= func.now())
            .order_by(Job.lease_expires_at)
            .limit(limit)
        ).scalars()
    )


def waiting_past_deadline(session: Session, *, queue: str, limit: int) -> list[uuid.UUID]:
    """Jobs whose deadline passed while nobody held them."""
    return list(
        session.execute(
            select(Job.id)
            .where(
                Job.queue == queue,
                Job.finished_at.is_(None),
                Job.deadline_at <= func.now(),
                Job.claimed_by.is_(None),
            )
            .order_by(Job.deadline_at)
            .limit(limit)
        ).scalars()
    )


def waiting_without_delivery(session: Session, *, queue: str, limit: int) -> list[uuid.UUID]:
    """Waiting jobs that are owed nothing. No code path leaves one behind; a hand in the database might."""
    owed = exists().where(Delivery.job_id == Job.id)
    return list(
        session.execute(
            select(Job.id)
            .where(Job.queue == queue, Job.finished_at.is_(None), Job.claimed_by.is_(None), ~owed)
            .limit(limit)
        ).scalars()
    )
