"""Messages that are owed to people and programs outside. Postpone, send, settle: whoever dies in between sends again.

A notice is owed in the transaction of what it tells of, and has a key of its own by which the receiver drops a repeat.
Nothing that happens to a notice touches its job. Functions take a session and never commit.
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
"""How long after each try the next one is due: about a day in all. The first outlasts a try that is in the air."""

LONGEST_WAIT_SECONDS = 6 * 3600
"""The longest pause that a receiver can ask for. With it the tries still end within two days."""

TRIES = len(PAUSES_SECONDS) + 1
TOLD_BY_EMAIL = frozenset({State.SUCCEEDED, State.FAILED})
"""Nobody needs a mail that says that they cancelled something; a program that waits for an end does."""


@dataclass(frozen=True)
class PendingNotification:
    """One message to send. `attempt` counts the tries, from 1; `occurred_at` is when what it tells of happened."""

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
    """Owe somebody a message. False: it was owed under this key before, and nothing was added.

    `queue` names the site whose workers send it. `facts` must hold nothing secret, nor text of a document: a link that
    opens something is signed when the message is made. `useful_for_seconds` None: until the sender gives up.
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


def enqueue_for_operators(session: Session, *, queue: str, what: str) -> None:
    """As much work as owing somebody a message, where there is nobody: a row that is given up at once.

    So that how long an answer takes does not tell whether an address is known. The address is not kept.
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
    """A job has just ended: owe its owner what they want to be told. Part of the transaction that ends it."""
    row = session.execute(
        select(Job, NoticeWish)
        .join(NoticeWish, NoticeWish.account_id == Job.account_id)
        .where(Job.id == job_id, Job.state.in_(list(TERMINAL)))
        .execution_options(populate_existing=True)
    ).one_or_none()
    if row is None:
        return
    job, wish = row
    about = {
        "id": str(job.id),
        "state": job.state,
        "workflow": job.workflow,
        "error_category": job.error_category,
        "finished_at": None if job.finished_at is None else job.finished_at.isoformat(),
    }
    # A job that is put back and ends again is something new to tell, so the revision is part of the key.
    key = f"job_{job.id.hex}_{job.revision}"
    common: dict[str, Any] = {
        "queue": job.queue,
        "what": f"job.{job.state}",
        "account_id": job.account_id,
        "job_id": job.id,
    }
    wants_mail = wish.email_on if job.email_when_done is None else job.email_when_done
    if wish.email is not None and wants_mail and job.state in TOLD_BY_EMAIL:
        mail = {**about, "title": job.title, "language": wish.language}
        enqueue(session, key=f"{key}_email", channel=Channel.EMAIL, target=wish.email, facts=mail, **common)
    if wish.webhook_url is not None:
        enqueue(session, key=f"{key}_webhook", channel=Channel.WEBHOOK, target=wish.webhook_url, facts=about, **common)


def cancel_of_job(session: Session, job_id: uuid.UUID) -> None:
    """A failed job was put back: what was not sent yet about its end is not true any more."""
    session.execute(delete(Notice).where(Notice.job_id == job_id, *_unsettled()))


def take_due(
    session: Session, *, queue: str, channel: Channel, limit: int, busy_targets: Collection[str] = ()
) -> list[PendingNotification]:
    """Take notices whose time has come, and postpone each before it is sent.

    At most one a target, and none for `busy_targets`, so that somebody with many, or with a slow server, keeps nobody
    waiting. Rows that another sender holds are skipped, so any number may run.
    """
    due = [*_unsettled(), Notice.queue == queue, Notice.channel == channel, Notice.due_at <= func.now()]
    place = func.row_number().over(partition_by=Notice.target, order_by=(Notice.due_at, Notice.id)).label("place")
    first = select(Notice.id, place).where(*due, Notice.target.not_in(list(busy_targets))).subquery()
    taken = (
        select(Notice.id)
        .where(*due, Notice.id.in_(select(first.c.id).where(first.c.place == 1)))
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
    """It was sent. What it said is not kept."""
    session.execute(
        update(Notice)
        .where(Notice.id == notice_id, *_unsettled())
        .values(sent_at=func.now(), error_code=None, facts={})
        .execution_options(synchronize_session=False)
    )


def failed(
    session: Session, notice_id: uuid.UUID, *, code: str, for_good: bool, wait_seconds: float | None = None
) -> bool:
    """A try failed. Whether that was the last one: the tries are used up, or another would end the same way.

    `wait_seconds` is how long the receiver asks to stay away. All that is owed to it waits so long, up to the longest
    pause; a shorter one than ours changes nothing, since the tries are counted.
    """
    if wait_seconds is not None:
        _stay_away(session, notice_id, min(wait_seconds, LONGEST_WAIT_SECONDS))
    over: ColumnElement[bool] = true() if for_good else Notice.tries >= TRIES
    row = session.execute(
        update(Notice)
        .where(Notice.id == notice_id, *_unsettled())
        .values(
            error_code=code,
            gave_up_at=case((over, func.now()), else_=None),
            facts=case((over, literal({}, JSONB)), else_=Notice.facts),
        )
        .returning(Notice.gave_up_at)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return row is not None and row[0] is not None


def _stay_away(session: Session, notice_id: uuid.UUID, for_seconds: float) -> None:
    """Nothing goes where this notice goes for so long."""
    this = aliased(Notice)
    session.execute(
        update(Notice)
        .where(
            Notice.id.in_(
                _held(
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
    """Nothing that is owed to this target of the account is sent any more."""
    theirs = (Notice.account_id == account_id, Notice.channel == channel, Notice.target == target)
    session.execute(
        update(Notice)
        .where(Notice.id.in_(_held(session, *theirs)))
        .values(gave_up_at=func.now(), error_code=code, facts={})
        .execution_options(synchronize_session=False)
    )


def _held(session: Session, *which: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    """Those that are still owed, locked; in one order, since two senders may do this at the same time."""
    owed = select(Notice.id).where(*which, *_unsettled()).order_by(Notice.id).with_for_update(of=Notice)
    return session.execute(owed).scalars().all()


def give_up_useless(session: Session, *, queue: str, older_than_seconds: float) -> int:
    """Give up what is of no use any more: expired, or older than that, since nobody can send it. How many."""
    return len(
        session.execute(
            update(Notice)
            .where(
                Notice.queue == queue,
                *_unsettled(),
                (Notice.expires_at <= func.now()) | (Notice.created_at <= func.now() - seconds(older_than_seconds)),
            )
            .values(gave_up_at=func.now(), error_code=func.coalesce(Notice.error_code, "expired"), facts={})
            .returning(Notice.id)
            .execution_options(synchronize_session=False)
        ).all()
    )


def delete_sent(session: Session, *, queue: str, older_than_seconds: float) -> int:
    """Delete the rows of what was sent or given up that long ago. How many."""
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
    """The account's newest notices on a channel, newest first."""
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


def _unsettled() -> list[ColumnElement[bool]]:
    return [Notice.sent_at.is_(None), Notice.gave_up_at.is_(None)]
