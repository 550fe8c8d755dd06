"""The work that a worker's loops have to do now, read with one statement, so that an idle site asks once for all."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Connection, Integer, Select, String, func, literal_column, or_, select, text
from sqlalchemy.orm import Session

from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.models import Delivery, Job, LeftResponse, ProviderCall
from tasks.ledger.models.control import Replay
from tasks.ledger.models.notifications import UNSETTLED, Channel, Notice


class Work(StrEnum):
    """The kinds of work, each of which has a loop."""

    DELIVERIES = "deliveries"
    SWEEPS = "sweeps"
    REPLAYS = "replays"
    MAILS = "mails"
    WEBHOOKS = "webhooks"
    RESPONSES = "responses"


OF_CHANNEL = {Channel.EMAIL: Work.MAILS, Channel.WEBHOOK: Work.WEBHOOKS}
"""The kind of work that sends the notifications of a channel."""


def _query() -> Select[bool, bool, bool, bool, bool, bool]:
    queue, lane = parameter("queue", String()), parameter("lane", String())
    retention = func.now() - func.make_interval(0, 0, 0, parameter("retention_days", Integer()))
    # Literals, as in the partial indexes: the plan of a prepared statement does not know the values of its parameters.
    due = select(Notice.id).where(text(UNSETTLED), Notice.queue == queue, Notice.due_at <= func.now())
    open_response = (ProviderCall.outcome == literal_column("'open'")) & ProviderCall.response_id.is_not(None)
    kept_response = text("background AND response_deleted_at IS NULL AND outcome <> 'open'")
    return select(
        select(Delivery.job_id)
        .where(Delivery.queue == queue, or_(Delivery.due_at <= func.now(), Delivery.dispatches > literal_column("0")))
        .exists(),
        or_(
            select(Job.id).where(Job.queue == queue, Job.finished_at.is_(None)).exists(),
            select(Job.id)
            .where(Job.queue == queue, Job.content_deleted_at.is_(None), Job.finished_at < retention)
            .exists(),
        ),
        select(Replay.id).where(Replay.queue == queue, Replay.state == literal_column("'running'")).exists(),
        due.where(Notice.channel == Channel.EMAIL).exists(),
        due.where(Notice.channel == Channel.WEBHOOK).exists(),
        or_(
            select(ProviderCall.id).where(ProviderCall.lane == lane, open_response).exists(),
            select(ProviderCall.id).where(ProviderCall.lane == lane, kept_response).exists(),
            select(LeftResponse.response_id).where(LeftResponse.lane == lane).exists(),
        ),
    )


_STATEMENT = CompiledStatement(_query())


def due_work(on: Connection | Session, *, queue: str, lane: str, retention_days: int) -> frozenset[Work]:
    """Return the kinds of which there may be something to do. A kind that is missing has nothing to do.

    Sweeps are due while a job is unfinished, and deliveries while a message is on its way that may have got lost.
    """
    row = _STATEMENT.execute(on, queue=queue, lane=lane, retention_days=retention_days).one()
    return frozenset(work for work, is_due in zip(Work, row, strict=True) if is_due)
