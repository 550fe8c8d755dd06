"""Limits that were passed, and whom to tell. Any number of workers may look: one of them begins, tells and ends each.

An alert ends when its limit was kept for `CALM_SECONDS`, so that one that wavers tells once.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.delivery import outbox
from tasks.ledger.errors import Category
from tasks.ledger.models import Job, Lane
from tasks.ledger.models.notifications import Alert, AlertKind
from tasks.ledger.reports import job_views
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import LaneState, State

CALM_SECONDS = 300.0
REPEAT_SECONDS = 86_400.0
NOT_THE_SITES_FAULT = frozenset({Category.INVALID_DOCUMENT, Category.CONTENT_POLICY})
"""Causes that lie with one document: nobody need get up for them."""


@dataclass(frozen=True)
class AlertThresholds:
    """What is still fine. `queue_age_seconds`: how long work may wait for a worker; `failures`: within an hour."""

    queue_age_seconds: float
    failures: int
    orphan_grace_seconds: float


@dataclass(frozen=True)
class Notification:
    """Something to tell an operator about an alert: it `began`, it goes on (`repeated`), or it is `over`.

    `key` differs for each telling, and is the same whoever tells it.
    """

    key: str
    what: str
    kind: AlertKind
    facts: Mapping[str, object]
    began_at: datetime


def measured(
    session: Session, *, queue: str, lane: str, limits: AlertThresholds
) -> dict[AlertKind, dict[str, object] | None]:
    """What each limit measures now; None where it is kept."""
    age = outbox.oldest_overdue_seconds(session, queue)
    failures = failures_within_an_hour(session, queue)
    orphans = job_views.orphans(session, grace_seconds=limits.orphan_grace_seconds, queue=queue)
    stopped = session.execute(
        select(Lane.category, Lane.code).where(Lane.name == lane, Lane.state == LaneState.STOPPED)
    ).one_or_none()
    return {
        AlertKind.QUEUE_AGE: {"seconds": round(age), "limit": limits.queue_age_seconds}
        if age > limits.queue_age_seconds
        else None,
        AlertKind.FAILURES: {"jobs": failures, "limit": limits.failures} if failures > limits.failures else None,
        AlertKind.ORPHANS: {"jobs": orphans} if orphans else None,
        AlertKind.LANE_STOPPED: None
        if stopped is None
        else {"lane": lane, "category": stopped.category, "code": stopped.code},
    }


def failures_within_an_hour(session: Session, queue: str) -> int:
    """How many jobs of this queue failed within the last hour of causes that do not lie with their document."""
    return session.execute(
        select(func.count()).where(
            Job.queue == queue,
            Job.state == State.FAILED,
            Job.finished_at > func.now() - seconds(3600),
            Job.error_category.not_in(NOT_THE_SITES_FAULT),
        )
    ).scalar_one()


def update_alerts(
    session: Session, *, queue: str, found: Mapping[AlertKind, Mapping[str, object] | None]
) -> list[Notification]:
    """Begin, go on with and end the alerts of a queue by what was measured. What is to be told now."""
    told = []
    for kind, facts in found.items():
        telling = _goes_on(session, queue, kind, facts) if facts else _is_calm(session, queue, kind)
        if telling is not None:
            told.append(telling)
    return told


def _goes_on(session: Session, queue: str, kind: AlertKind, facts: Mapping[str, object]) -> Notification | None:
    began = session.execute(
        insert(Alert)
        .values(id=uuid.uuid4(), queue=queue, kind=kind, facts=dict(facts))
        .on_conflict_do_nothing(index_elements=[Alert.queue, Alert.kind], index_where=Alert.ended_at.is_(None))
        .returning(Alert)
    ).scalar_one_or_none()
    if began is not None:
        return Notification(f"alert_{began.id.hex}_began", "alert.began", kind, facts, began.began_at)
    mine = (Alert.queue == queue, Alert.kind == kind, Alert.ended_at.is_(None))
    session.execute(
        update(Alert)
        .where(*mine, Alert.calm_since.is_not(None))
        .values(calm_since=None)
        .execution_options(synchronize_session=False)
    )
    again = session.execute(
        update(Alert)
        .where(*mine, Alert.told_at <= func.now() - seconds(REPEAT_SECONDS))
        .values(told_at=func.now(), facts=dict(facts))
        .returning(Alert)
        .execution_options(synchronize_session=False, populate_existing=True)
    ).scalar_one_or_none()
    if again is None:
        return None
    day = round((again.told_at - again.began_at).total_seconds() / REPEAT_SECONDS)
    return Notification(f"alert_{again.id.hex}_day{day}", "alert.repeated", kind, facts, again.began_at)


def _is_calm(session: Session, queue: str, kind: AlertKind) -> Notification | None:
    mine = (Alert.queue == queue, Alert.kind == kind, Alert.ended_at.is_(None))
    session.execute(
        update(Alert)
        .where(*mine, Alert.calm_since.is_(None))
        .values(calm_since=func.now())
        .execution_options(synchronize_session=False)
    )
    over = session.execute(
        update(Alert)
        .where(*mine, Alert.calm_since <= func.now() - seconds(CALM_SECONDS))
        .values(ended_at=func.now())
        .returning(Alert)
        .execution_options(synchronize_session=False, populate_existing=True)
    ).scalar_one_or_none()
    return (
        None
        if over is None
        else Notification(f"alert_{over.id.hex}_over", "alert.over", kind, over.facts, over.began_at)
    )


def open_alerts(session: Session, queue: str) -> Sequence[Alert]:
    """The alerts that are not over, oldest first."""
    return (
        session.execute(select(Alert).where(Alert.queue == queue, Alert.ended_at.is_(None)).order_by(Alert.began_at))
        .scalars()
        .all()
    )
