"""The notification preferences of an account: e-mail and webhook.

The caller passes the account's e-mail address, since the ledger does not know the accounts table.
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
    """Return the preferences of this account. Returns None if it has never set any."""
    return session.execute(
        select(NoticeWish).where(NoticeWish.account_id == account_id).execution_options(populate_existing=True)
    ).scalar_one_or_none()


def set_email(session: Session, account_id: uuid.UUID, address: str, *, on: bool, language: str | None = None) -> None:
    """Turn e-mail at the end of jobs on or off for this account.

    `address` must be an address that the account has confirmed. `language` is the language of the mails; None: English.
    """
    values = {"email": address, "email_on": on, "language": language}
    statement = insert(NoticeWish).values(account_id=account_id, **values)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[NoticeWish.account_id], set_={**values, "changed_at": func.now()}
        )
    )


def set_language(session: Session, account_id: uuid.UUID, code: str) -> None:
    """Set the language of the account's notifications. Does nothing if the account has no preferences."""
    session.execute(
        update(NoticeWish)
        .where(NoticeWish.account_id == account_id)
        .values(language=code, changed_at=func.now())
        .execution_options(synchronize_session=False)
    )


def email_of_job(session: Session, job_id: uuid.UUID, account_id: uuid.UUID) -> bool | None:
    """Return True if an e-mail is sent at the end of this job. Returns None if the account has no confirmed address."""
    return session.execute(
        select(func.coalesce(Job.email_when_done, NoticeWish.email_on))
        .join(NoticeWish, NoticeWish.account_id == Job.account_id)
        .where(Job.id == job_id, Job.account_id == account_id, NoticeWish.email.is_not(None))
    ).scalar_one_or_none()


def set_email_for_job(session: Session, job_id: uuid.UUID, account_id: uuid.UUID, *, wanted: bool) -> bool:
    """Turn the e-mail at the end of this one job on or off, whatever the account's preference is.

    Returns False if the job has ended or belongs to another account.
    """
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
    """Set the account's webhook, and return the new secret with which its messages are signed."""
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
    """Remove the account's webhook. The sender gives up what is still owed to it."""
    session.execute(
        update(NoticeWish)
        .where(NoticeWish.account_id == account_id)
        .values(webhook_url=None, webhook_secret=None, changed_at=func.now(), **NOT_GONE)
        .execution_options(synchronize_session=False)
    )


def webhook_is_gone(session: Session, account_id: uuid.UUID, url: str, *, code: str) -> None:
    """Turn the account's webhook off, since its receiver is gone for good, and give up what is owed to it.

    Does nothing if the account has another URL by now. The URL is kept, so that the user can be told what happened.
    Lock order: the notifications before the preferences, as in the deletion of an account.
    """
    outbox.lock_owed_to(session, account_id, Channel.WEBHOOK, url)
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
    """Return the secret that signs messages to this URL. Returns None if it is no longer the account's webhook."""
    return session.execute(
        select(NoticeWish.webhook_secret).where(NoticeWish.account_id == account_id, NoticeWish.webhook_url == url)
    ).scalar_one_or_none()


def delete_preferences(session: Session, account_id: uuid.UUID) -> None:
    """Delete the preferences of an account that is being deleted."""
    session.execute(delete(NoticeWish).where(NoticeWish.account_id == account_id))
