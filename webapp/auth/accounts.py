"""Changes an account. Functions take a session and never commit."""

from __future__ import annotations

import hashlib
import uuid

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.notifications import preferences
from webapp.models import Account, ApiToken, BrowserSession, Identity, UploadLink


def account_with(session: Session, email: str) -> Account | None:
    """Return the account with this e-mail address, which must be in its stored form."""
    return session.execute(
        select(Account).where(Account.email == email).execution_options(populate_existing=True)
    ).scalar_one_or_none()


def password_stamp(password_hash: str) -> str:
    """Return a fingerprint for links that must not outlive the password. It reveals nothing about the password."""
    return hashlib.sha256(password_hash.encode()).hexdigest()[:32]


def change_password(session: Session, account: Account, new_hash: str) -> int | None:
    """Replace the password that was just proven, and end all sessions. Returns the new session stamp.

    Returns None if the password of `account` has changed meanwhile, so that the user proved an old one.
    """
    stamp: int | None = session.execute(
        update(Account)
        .where(Account.id == account.id, Account.password_hash == account.password_hash)
        .values(password_hash=new_hash, session_stamp=Account.session_stamp + 1)
        .returning(Account.session_stamp)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    if stamp is not None:
        _delete_sessions(session, account.id)
    return stamp


def revoke_tokens(session: Session, account_id: uuid.UUID) -> int:
    """Revoke all API tokens of an account. Returns how many there were."""
    return len(session.execute(delete(ApiToken).where(ApiToken.account_id == account_id).returning(ApiToken.id)).all())


def revoke_tokens_with_password(session: Session, account: Account, *, requested: bool) -> int:
    """Revoke the API tokens together with the old password, if requested. Returns how many there were.

    An operator's are always revoked: anybody who knew the password could have created one, and it opens the whole site.
    """
    return revoke_tokens(session, account.id) if requested or account.is_operator else 0


def end_sessions(session: Session, account_id: uuid.UUID) -> int | None:
    """End all sessions of an account, in every browser. Returns the new session stamp; API tokens keep working.

    Returns None if there is no such account.
    """
    stamp: int | None = session.execute(
        update(Account)
        .where(Account.id == account_id)
        .values(session_stamp=Account.session_stamp + 1)
        .returning(Account.session_stamp)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    _delete_sessions(session, account_id)
    return stamp


def _delete_sessions(session: Session, account_id: uuid.UUID) -> None:
    """Delete the rows. The new stamp has already ended the sessions, even one whose sign-in is in progress."""
    session.execute(
        delete(BrowserSession)
        .where(BrowserSession.account_id == account_id)
        .execution_options(synchronize_session=False)
    )


def change_language(session: Session, account_id: uuid.UUID, chosen: str | None, *, mails: str) -> None:
    """Set the language of the account's pages (None: the browser's) and the language of its mails."""
    session.execute(
        update(Account)
        .where(Account.id == account_id)
        .values(language=chosen)
        .execution_options(synchronize_session=False)
    )
    preferences.set_language(session, account_id, mails)


def prove_address(session: Session, account_id: uuid.UUID) -> None:
    """Record that the user has proven to own the e-mail address."""
    session.execute(
        update(Account)
        .where(Account.id == account_id, Account.email_proven_at.is_(None))
        .values(email_proven_at=func.now())
        .execution_options(synchronize_session=False)
    )


def close_other_ways_in(session: Session, account_id: uuid.UUID) -> None:
    """Remove all access other than the password: API tokens, sign-in services, upload links, the webhook.

    Used when the owner of an e-mail address takes over an account that somebody else may have created with it.
    """
    revoke_tokens(session, account_id)
    session.execute(delete(Identity).where(Identity.account_id == account_id))
    session.execute(
        update(UploadLink)
        .where(UploadLink.account_id == account_id, UploadLink.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .execution_options(synchronize_session=False)
    )
    preferences.remove_webhook(session, account_id)


def lock_against_deletion(session: Session, account_id: uuid.UUID) -> None:
    """Keep the account from being deleted until the transaction ends; its other fields may change.

    Lock order: the account, then documents, then jobs. A submission that locked a document first would meet a deletion
    that holds the account and wants the document.
    """
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update(read=True, key_share=True))
