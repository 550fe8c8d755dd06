"""The outbox of notifications: e-mails and webhooks that are owed to users, programs and operators.

A notification is inserted in the transaction of the event that it reports. It is postponed, then sent, then marked as
sent, so a sender that dies in between causes a repeat and not a loss. By its key the receiver drops repeats.
A failed notification never changes its job. Functions take a session and never commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, delete, exists, func, literal, select, true, update
from sqlalchemy.dialects.postgresql import JSONB, array, insert
from sqlalchemy.orm import Session, aliased

from tasks.ledger.models import Job
from tasks.ledger.models.notifications import Channel, Notice, NoticeWish
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import TERMINAL, State

PAUSES_SECONDS = (60, 300, 1800, 7200, 18_000, 28_800, 32_400)
"""Sets the pause after each try, about a day in all. The first is longer than a try that is in progress can take."""

MAX_WAIT_SECONDS = 6 * 3600
"""Limits the pause that a receiver can ask for. With it the tries still end within two days."""

TRIES = len(PAUSES_SECONDS) + 1
STATES_WITH_EMAIL = frozenset({State.SUCCEEDED, State.FAILED})
"""List the final states that are reported by e-mail. A user who cancels needs no e-mail; a webhook reports that too."""


@dataclass(frozen=True)
class PendingNotification:
    """A notification to send. `attempt` counts the tries, from 1; `occurred_at` is the time of the reported event."""

    id: uuid.UUID
    key: str
    account_id: uuid.UUID | None
    channel: Channel
    target: str
    what: str
    facts: Mapping[str, Any]
    attempt: int
    occurred_at: datetime


def enqueue(
    session: Session,
    *,
    queue: str,
    key: str,
    channel: Channel,
    target: str,
    what: str,
    facts: Mapping[str, Any],
    account_id: uuid.UUID | None = None,
    job_id: uuid.UUID | None = None,
    useful_for_seconds: float | None = None,
) -> bool:
    """Insert a notification. Returns False, and inserts nothing, if there is one with this key already.

    `queue` names the site whose workers send it. `facts` must hold no secret and no text of a document; links that
    grant access are signed only when the message is written. After `useful_for_seconds` it is not sent any more; None:
    it is sent until the sender gives up.
    """
    expires_at = None if useful_for_seconds is None else func.now() + seconds(useful_for_seconds)
    statement = insert(Notice).values(
        id=uuid.uuid4(),
        key=key,
        queue=queue,
        account_id=account_id,
        job_id=job_id,
        channel=channel,
        target=target,
        what=what,
        facts=dict(facts),
        expires_at=expires_at,
    )
    return bool(
        session.execute(statement.on_conflict_do_nothing(index_elements=[Notice.key]).returning(Notice.id)).all()
    )


def enqueue_to_nobody(session: Session, *, queue: str, what: str) -> None:
    """Insert a notification without a receiver, which is given up at once: as much work as inserting a real one.

    So the time of a response does not reveal if an address is known. The address is not stored.
    """
    session.execute(
        insert(Notice).values(
            id=uuid.uuid4(),
            key=f"nobody_{uuid.uuid4().hex}",
            queue=queue,
            channel=Channel.EMAIL,
            target="nobody",
            what=what,
            facts={},
            expires_at=func.now(),
            gave_up_at=func.now(),
            error_code="nobody",
        )
    )


def enqueue_end_of_job(session: Session, job_id: uuid.UUID) -> None:
    """Insert the notifications about a job's end that its owner wants. Runs in the transaction that ends the job."""
    row = session.execute(
        select(Job, NoticeWish)
        .join(NoticeWish, NoticeWish.account_id == Job.account_id)
        .where(Job.id == job_id, Job.state.in_(list(TERMINAL)))
        .execution_options(populate_existing=True)
    ).one_or_none()
    if row is None:
        return
    job, preference = row
    about = {
        "id": str(job.id),
        "state": job.state,
        "workflow": job.workflow,
        "error_category": job.error_category,
        "finished_at": None if job.finished_at is None else job.finished_at.isoformat(),
    }
    # A job that is replayed and ends again needs a new notification, so its revision is part of the key.
    key = f"job_{job.id.hex}_{job.revision}"
    common: dict[str, Any] = {
        "queue": job.queue,
        "what": f"job.{job.state}",
        "account_id": job.account_id,
        "job_id": job.id,
    }
    wants_mail = preference.email_on if job.email_when_done is None else job.email_when_done
    if preference.email is not None and wants_mail and job.state in STATES_WITH_EMAIL:
        mail = {**about, "title": job.title, "language": preference.language}
        enqueue(session, key=f"{key}_email", channel=Channel.EMAIL, target=preference.email, facts=mail, **common)
    if preference.webhook_url is not None:
        url = preference.webhook_url
        enqueue(session, key=f"{key}_webhook", channel=Channel.WEBHOOK, target=url, facts=about, **common)


def cancel_of_job(session: Session, job_id: uuid.UUID) -> None:
    """Delete the notifications of a replayed job that were not sent yet, since they are no longer true."""
    session.execute(delete(Notice).where(Notice.job_id == job_id, *_pending()))


def take_due(
    session: Session, *, queue: str, channel: Channel, limit: int, busy_targets: Collection[str] = ()
) -> list[PendingNotification]:
    """Take notifications that are due, and postpone each before it is sent.

    Takes at most one per target and none for `busy_targets`, so that a target with many of them or with a slow server
    does not hold up the others. Rows that another sender has locked are skipped, so any number of senders may run.
    """
    due = [*_pending(), Notice.queue == queue, Notice.channel == channel, Notice.due_at <= func.now()]
    number = func.row_number().over(partition_by=Notice.target, order_by=(Notice.due_at, Notice.id)).label("number")
    numbered = select(Notice.id, number).where(*due, Notice.target.not_in(list(busy_targets))).subquery()
    taken = (
        select(Notice.id)
        .where(*due, Notice.id.in_(select(numbered.c.id).where(numbered.c.number == 1)))
        .order_by(Notice.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    pauses = array([float(pause) for pause in PAUSES_SECONDS])
    pause = func.coalesce(pauses[Notice.tries + 1], float(PAUSES_SECONDS[-1]))
    rows = session.execute(
        update(Notice)
        .where(Notice.id.in_(taken.scalar_subquery()))
        .values(tries=Notice.tries + 1, due_at=func.now() + seconds(pause))
        .returning(Notice)
        .execution_options(synchronize_session=False, populate_existing=True)
    ).scalars()
    return [
        PendingNotification(
            row.id, row.key, row.account_id, Channel(row.channel), row.target, row.what, row.facts, row.tries,
            row.created_at,
        )
        for row in rows
    ]  # fmt: skip


def mark_sent(session: Session, notice_id: uuid.UUID) -> None:
    """Mark the notification as sent, and delete its content."""
    session.execute(
        update(Notice)
        .where(Notice.id == notice_id, *_pending())
        .values(sent_at=func.now(), error_code=None, facts={})
        .execution_options(synchronize_session=False)
    )


def failed(
    session: Session, notice_id: uuid.UUID, *, code: str, for_good: bool, wait_seconds: float | None = None
) -> bool:
    """Record that a try failed. Returns True if it was the last: the tries are used up, or the failure is `for_good`.

    `wait_seconds` is the pause that the receiver asked for. It postpones all that is owed to this target, by at most
    `LONGEST_WAIT_SECONDS`. A pause that is shorter than the planned one changes nothing, since the tries are limited.
    """
    if wait_seconds is not None:
        _postpone_target(session, notice_id, min(wait_seconds, MAX_WAIT_SECONDS))
    is_last: ColumnElement[bool] = true() if for_good else Notice.tries >= TRIES
    row = session.execute(
        update(Notice)
        .where(Notice.id == notice_id, *_pending())
        .values(
            error_code=code,
            gave_up_at=case((is_last, func.now()), else_=None),
            facts=case((is_last, literal({}, JSONB)), else_=Notice.facts),
        )
        .returning(Notice.gave_up_at)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return row is not None and row[0] is not None


def _postpone_target(session: Session, notice_id: uuid.UUID, for_seconds: float) -> None:
    """Send nothing to the target of this notification for `for_seconds`."""
    this = aliased(Notice)
    session.execute(
        update(Notice)
        .where(
            Notice.id.in_(
                _lock_pending(
                    session,
                    exists().where(
                        this.id == notice_id,
                        this.queue == Notice.queue,
                        this.channel == Notice.channel,
                        this.target == Notice.target,
                    ),
                )
            )
        )
        .values(due_at=func.greatest(Notice.due_at, func.now() + seconds(for_seconds)))
        .execution_options(synchronize_session=False)
    )


def give_up_target(session: Session, account_id: uuid.UUID, channel: Channel, target: str, *, code: str) -> None:
    """Give up all notifications that are owed to this target of the account."""
    session.execute(
        update(Notice)
        .where(Notice.id.in_(lock_owed_to(session, account_id, channel, target)))
        .values(gave_up_at=func.now(), error_code=code, facts={})
        .execution_options(synchronize_session=False)
    )


def lock_owed_to(session: Session, account_id: uuid.UUID, channel: Channel, target: str) -> Sequence[uuid.UUID]:
    """Lock the notifications that are still owed to this target of the account, and return their ids."""
    theirs = (Notice.account_id == account_id, Notice.channel == channel, Notice.target == target)
    return _lock_pending(session, *theirs)


def _lock_pending(session: Session, *which: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    """Lock the notifications that are still owed and return their ids.

    They are locked in the order of their ids, so that two senders that do this at the same time do not deadlock.
    """
    owed = select(Notice.id).where(*which, *_pending()).order_by(Notice.id).with_for_update(of=Notice)
    return session.execute(owed).scalars().all()


def give_up_useless(session: Session, *, queue: str, older_than_seconds: float) -> int:
    """Give up notifications that are useless by now, and return their number.

    They have expired, or are older than `older_than_seconds`, since no sender could send them.
    """
    return len(
        session.execute(
            update(Notice)
            .where(
                Notice.queue == queue,
                *_pending(),
                (Notice.expires_at <= func.now()) | (Notice.created_at <= func.now() - seconds(older_than_seconds)),
            )
            .values(gave_up_at=func.now(), error_code=func.coalesce(Notice.error_code, "expired"), facts={})
            .returning(Notice.id)
            .execution_options(synchronize_session=False)
        ).all()
    )


def delete_sent(session: Session, *, queue: str, older_than_seconds: float) -> int:
    """Delete sent and given-up notifications that are older than `older_than_seconds`, and return their number."""
    return len(
        session.execute(
            delete(Notice)
            .where(
                Notice.queue == queue,
                (Notice.sent_at.is_not(None)) | (Notice.gave_up_at.is_not(None)),
                Notice.created_at <= func.now() - seconds(older_than_seconds),
            )
            .returning(Notice.id)
        ).all()
    )


def latest_of(session: Session, account_id: uuid.UUID, channel: Channel, *, limit: int) -> Sequence[Notice]:
    """Return the account's newest notifications on a channel, newest first."""
    return (
        session.execute(
            select(Notice)
            .where(Notice.account_id == account_id, Notice.channel == channel)
            .order_by(Notice.created_at.desc(), Notice.id)
            .limit(limit)
            .execution_options(populate_existing=True)
        )
        .scalars()
        .all()
    )


def _pending() -> list[ColumnElement[bool]]:
    """Return the SQL conditions that a notification was neither sent nor given up."""
    return [Notice.sent_at.is_(None), Notice.gave_up_at.is_(None)]
