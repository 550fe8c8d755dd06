"""Finds jobs that the reconciler must act on, since a worker or a delivery is missing. Nothing here writes."""

from __future__ import annotations

import uuid

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from tasks.ledger.lost_claims import is_lost
from tasks.ledger.models import Delivery, Job
from tasks.ledger.terms import RenewalTimes


def lost_claims(session: Session, *, queue: str, limit: int, renewal: RenewalTimes | None = None) -> list[uuid.UUID]:
    """Return held jobs whose claim is lost, see `is_lost`, the earliest lease first."""
    return list(
        session.execute(
            select(Job.id)
            .where(Job.queue == queue, Job.lease_expires_at.is_not(None), is_lost(renewal))
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
                Job.deadline_at <= func.clock_timestamp(),
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
