"""What can happen to an account. Functions take a session and never commit."""

from __future__ import annotations

import hashlib
import uuid

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.notifications import preferences
from webapp.models import Account, ApiToken, BrowserSession, Identity, UploadLink


def account_with(session: Session, email: str) -> Account | None:
    """The account with this address, in the form addresses are stored in."""
    return session.execute(
        select(Account).where(Account.email == email).execution_options(populate_existing=True)
    ).scalar_one_or_none()


def password_stamp(password_hash: str) -> str:
    """What a link is bound to that must not outlive the password. Tells nothing of it."""
    return hashlib.sha256(password_hash.encode()).hexdigest()[:32]


def change_password(session: Session, account: Account, new_hash: str) -> int | None:
    """Put a new password in the place of the one that was just proved, and end all sessions. The new stamp.

    None: the password is not the one of `account` any more, so whoever is changing it knows an old one.
    """
    stamp: int | None = session.execute(
        update(Account)
        .where(Account.id == account.id, Account.password_hash == account.password_hash)
        .values(password_hash=new_hash, session_stamp=Account.session_stamp + 1)
        .returning(Account.session_stamp)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    if stamp is not None:
        _forget_sessions(session, account.id)
    return stamp


def revoke_tokens(session: Session, account_id: uuid.UUID) -> int:
    """Take all API tokens of an account away. How many there were."""
    return len(session.execute(delete(ApiToken).where(ApiToken.account_id == account_id).returning(ApiToken.id)).all())


def revoke_tokens_with_password(session: Session, account: Account, *, wanted: bool) -> int:
    """Take the API tokens away together with an old password, where that is wanted. How many there were.

    An operator's always: whoever knew the password could have made one, and the whole site is behind it.
    """
    return revoke_tokens(session, account.id) if wanted or account.is_operator else 0


def end_sessions(session: Session, account_id: uuid.UUID) -> int | None:
    """End all sessions of an account, wherever they are, and give the new stamp. Its API tokens go on.

    None: there is no such account.
    """
    stamp: int | None = session.execute(
        update(Account)
        .where(Account.id == account_id)
        .values(session_stamp=Account.session_stamp + 1)
        .returning(Account.session_stamp)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    _forget_sessions(session, account_id)
    return stamp


def _forget_sessions(session: Session, account_id: uuid.UUID) -> None:
    """Delete the rows. The stamp has ended them already, also one whose sign-in is just under way."""
    session.execute(
        delete(BrowserSession)
        .where(BrowserSession.account_id == account_id)
        .execution_options(synchronize_session=False)
    )


def change_language(session: Session, account_id: uuid.UUID, chosen: str | None, *, mails: str) -> None:
    """The language of the account's pages, None: the browser's, and the one its mails are written in."""
    session.execute(
        update(Account)
        .where(Account.id == account_id)
        .values(language=chosen)
        .execution_options(synchronize_session=False)
    )
    preferences.set_language(session, account_id, mails)


def prove_address(session: Session, account_id: uuid.UUID) -> None:
    """The address of the account was shown to be its owner's."""
    session.execute(
        update(Account)
        .where(Account.id == account_id, Account.email_proven_at.is_(None))
        .values(email_proven_at=func.now())
        .execution_options(synchronize_session=False)
    )


def close_other_ways_in(session: Session, account_id: uuid.UUID) -> None:
    """Take away what gives access besides the password: API tokens, sign-in services, upload links, the webhook.

    For an account that somebody may have made with an address that was not theirs, once its owner comes.
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
