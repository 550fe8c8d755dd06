"""Finds jobs that the reconciler must act on, since a worker or a delivery is missing. Nothing here writes."""

from __future__ import annotations

import uuid

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from tasks.ledger.models import Delivery, Job


def expired_claims(session: Session, *, queue: str, limit: int) -> list[uuid.UUID]:
    """Return claimed jobs whose lease has expired, the earliest first.

    The reservation need not be compared: the constraint `a_lease_ends_within_its_reservation` holds the lease to it.
    """
    return list(
        session.execute(
            select(Job.id)
            .where(Job.queue == queue, Job.lease_expires_at <= func.now())
            .order_by(Job.lease_expires_at)
            .limit(limit)
        ).scalars()
    )


def waiting_past_deadline(session: Session, *, queue: str, limit: int) -> list[uuid.UUID]:
    """Return unfinished jobs whose deadline has passed and that no worker holds, the earliest deadline first."""
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
    """Return waiting jobs without a delivery. No code path leads there; a manual change in the database may."""
    owed = exists().where(Delivery.job_id == Job.id)
    return list(
        session.execute(
            select(Job.id)
            .where(Job.queue == queue, Job.finished_at.is_(None), Job.claimed_by.is_(None), ~owed)
            .limit(limit)
        ).scalars()
    )
