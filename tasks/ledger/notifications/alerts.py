"""Alerts: records which thresholds of the site are exceeded, and when an operator has to be notified.

Any number of workers may check at the same time: exactly one of them begins, repeats or ends an alert. An alert ends
when its value was within the threshold for `CALM_SECONDS`, so that a value near it does not cause many alerts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.calls import lanes
from tasks.ledger.delivery import outbox
from tasks.ledger.errors import Category
from tasks.ledger.models import Job, Lane
from tasks.ledger.models.notifications import Alert, AlertKind
from tasks.ledger.reports import job_views
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import LaneState, State
from tasks.ledger.terms import RenewalTimes

CALM_SECONDS = 300.0
REPEAT_SECONDS = 86_400.0
NOT_THE_SITES_FAULT = frozenset({Category.INVALID_DOCUMENT, Category.CONTENT_POLICY})
"""List the causes that lie with one document, which are no reason to alert an operator."""


@dataclass(frozen=True)
class AlertThresholds:
    """The highest values that cause no alert.

    `queue_age_seconds` is how long a job may wait for a worker, and `failures` the number of failed jobs in an hour.
    `renewal` says when a claim counts as lost, and its job as an orphan.
    """

    queue_age_seconds: float
    failures: int
    renewal: RenewalTimes


@dataclass(frozen=True)
class Notification:
    """A notification to an operator that an alert began, goes on (`alert.repeated`) or is over.

    `key` is different for each notification of an alert, and does not depend on the worker that sends it.
    """

    key: str
    what: str
    kind: AlertKind
    facts: Mapping[str, object]
    began_at: datetime


def measured(
    session: Session, *, queue: str, lane: str, limits: AlertThresholds
) -> dict[AlertKind, dict[str, object] | None]:
    """Return the facts of each threshold that is exceeded now, and None for each of the others."""
    age = outbox.oldest_overdue_seconds(session, queue)
    failures = failures_within_an_hour(session, queue)
    orphans = job_views.orphans(session, renewal=limits.renewal, queue=queue)
    stopped = session.execute(
        select(Lane.category, Lane.code).where(Lane.name == lane, Lane.state == LaneState.STOPPED)
    ).one_or_none()
    cooling = session.execute(
        select(Lane.category, Lane.code, Lane.until).where(Lane.name == lane, lanes.is_cooling_long())
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
        AlertKind.LANE_COOLING: None
        if cooling is None
        else {"lane": lane, "category": cooling.category, "code": cooling.code, "until": cooling.until.isoformat()},
    }


def failures_within_an_hour(session: Session, queue: str) -> int:
    """Count the jobs of this queue that failed within the last hour of causes that do not lie with their document."""
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
    """Begin, continue and end the alerts of a queue by what was measured, and return the notifications to send now."""
    notifications = []
    for kind, facts in found.items():
        notification = _begin_or_repeat(session, queue, kind, facts) if facts else _end_if_calm(session, queue, kind)
        if notification is not None:
            notifications.append(notification)
    return notifications


def _begin_or_repeat(session: Session, queue: str, kind: AlertKind, facts: Mapping[str, object]) -> Notification | None:
    """Begin an alert, or repeat one whose last notification is a day old. Returns None if there is nothing to send.

    The unique index `one_open_alert_of_a_kind` and the condition on `told_at` let one of several workers through.
    """
    began = session.execute(
        insert(Alert)
        .values(id=uuid.uuid4(), queue=queue, kind=kind, facts=dict(facts))
        .on_conflict_do_nothing(index_elements=[Alert.queue, Alert.kind], index_where=Alert.ended_at.is_(None))
        .returning(Alert)
    ).scalar_one_or_none()
    if began is not None:
        return Notification(f"alert_{began.id.hex}_began", "alert.began", kind, facts, began.began_at)
    is_open = (Alert.queue == queue, Alert.kind == kind, Alert.ended_at.is_(None))
    session.execute(
        update(Alert)
        .where(*is_open, Alert.calm_since.is_not(None))
        .values(calm_since=None)
        .execution_options(synchronize_session=False)
    )
    again = session.execute(
        update(Alert)
        .where(*is_open, Alert.told_at <= func.now() - seconds(REPEAT_SECONDS))
        .values(told_at=func.now(), facts=dict(facts))
        .returning(Alert)
        .execution_options(synchronize_session=False, populate_existing=True)
    ).scalar_one_or_none()
    if again is None:
        return None
    day = round((again.told_at - again.began_at).total_seconds() / REPEAT_SECONDS)
    return Notification(f"alert_{again.id.hex}_day{day}", "alert.repeated", kind, facts, again.began_at)


def _end_if_calm(session: Session, queue: str, kind: AlertKind) -> Notification | None:
    """Note that an open alert's value is within its threshold, and end the alert if it has been for `CALM_SECONDS`."""
    is_open = (Alert.queue == queue, Alert.kind == kind, Alert.ended_at.is_(None))
    session.execute(
        update(Alert)
        .where(*is_open, Alert.calm_since.is_(None))
        .values(calm_since=func.now())
        .execution_options(synchronize_session=False)
    )
    over = session.execute(
        update(Alert)
        .where(*is_open, Alert.calm_since <= func.now() - seconds(CALM_SECONDS))
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
    """Return the alerts that are not over, oldest first."""
    return (
        session.execute(select(Alert).where(Alert.queue == queue, Alert.ended_at.is_(None)).order_by(Alert.began_at))
        .scalars()
        .all()
    )
