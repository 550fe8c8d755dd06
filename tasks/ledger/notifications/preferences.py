"""What an account wants to be told, and where to.

Its mail address is handed in: the ledger does not know what an account is.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.models import Job
from tasks.ledger.models.notifications import Channel, NoticeWish
from tasks.ledger.notifications import outbox

SECRET_BYTES = 32
NOT_GONE: Mapping[str, Any] = {"webhook_gone_url": None, "webhook_gone_at": None}


def preference_of(session: Session, account_id: uuid.UUID) -> NoticeWish | None:
    """What this account wants; None: it has never said."""
    return session.execute(
        select(NoticeWish).where(NoticeWish.account_id == account_id).execution_options(populate_existing=True)
    ).scalar_one_or_none()


def set_email(session: Session, account_id: uuid.UUID, address: str, *, on: bool, language: str | None = None) -> None:
    """Whether this account wants mail at the end of its jobs, at an address that was confirmed to be its own.

    `language` is what it is written in, None: English.
    """
    values = {"email": address, "email_on": on, "language": language}
    statement = insert(NoticeWish).values(account_id=account_id, **values)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[NoticeWish.account_id], set_={**values, "changed_at": func.now()}
        )
    )


def set_language(session: Session, account_id: uuid.UUID, code: str) -> None:
    """Write to the account in this language from now on. Nothing happens if it has never wished for a notice."""
    session.execute(
        update(NoticeWish)
        .where(NoticeWish.account_id == account_id)
        .values(language=code, changed_at=func.now())
        .execution_options(synchronize_session=False)
    )


def email_of_job(session: Session, job_id: uuid.UUID, account_id: uuid.UUID) -> bool | None:
    """Whether mail tells of the end of this job; None: the account has confirmed no address."""
    return session.execute(
        select(func.coalesce(Job.email_when_done, NoticeWish.email_on))
        .join(NoticeWish, NoticeWish.account_id == Job.account_id)
        .where(Job.id == job_id, Job.account_id == account_id, NoticeWish.email.is_not(None))
    ).scalar_one_or_none()


def set_email_for_job(session: Session, job_id: uuid.UUID, account_id: uuid.UUID, *, wanted: bool) -> bool:
    """For this one job, mail or none, whatever is said for all. False: it has ended, or is not theirs."""
    return bool(
        session.execute(
            update(Job)
            .where(Job.id == job_id, Job.account_id == account_id, Job.finished_at.is_(None))
            .values(email_when_done=wanted, revision=Job.revision + 1)
            .returning(Job.id)
            .execution_options(synchronize_session=False)
        ).all()
    )


def set_webhook(session: Session, account_id: uuid.UUID, url: str) -> str:
    """Send what happens to this address from now on. The secret it is signed with, a new one each time."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    values = {"webhook_url": url, "webhook_secret": secret, **NOT_GONE}
    statement = insert(NoticeWish).values(account_id=account_id, **values)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[NoticeWish.account_id], set_={**values, "changed_at": func.now()}
        )
    )
    return secret


def remove_webhook(session: Session, account_id: uuid.UUID) -> None:
    """Nothing goes to the account's webhook any more; what is still owed to it is given up by the sender."""
    session.execute(
        update(NoticeWish)
        .where(NoticeWish.account_id == account_id)
        .values(webhook_url=None, webhook_secret=None, changed_at=func.now(), **NOT_GONE)
        .execution_options(synchronize_session=False)
    )


def webhook_is_gone(session: Session, account_id: uuid.UUID, url: str, *, code: str) -> None:
    """The receiver wants nothing any more: the account's webhook is switched off, and nothing is owed to it.

    No effect where the account has another address by now. The address is kept, to be able to say what happened.
    """
    gone = session.execute(
        update(NoticeWish)
        .where(NoticeWish.account_id == account_id, NoticeWish.webhook_url == url)
        .values(
            webhook_url=None,
            webhook_secret=None,
            webhook_gone_url=url,
            webhook_gone_at=func.now(),
            changed_at=func.now(),
        )
        .returning(NoticeWish.account_id)
        .execution_options(synchronize_session=False)
    ).all()
    if gone:
        outbox.give_up_target(session, account_id, Channel.WEBHOOK, url, code=code)


def secret_for(session: Session, account_id: uuid.UUID, url: str) -> str | None:
    """What messages to this address are signed with; None: the account does not want them there any more."""
    return session.execute(
        select(NoticeWish.webhook_secret).where(NoticeWish.account_id == account_id, NoticeWish.webhook_url == url)
    ).scalar_one_or_none()


def delete_preferences(session: Session, account_id: uuid.UUID) -> None:
    """The account is being deleted."""
    session.execute(delete(NoticeWish).where(NoticeWish.account_id == account_id))
