"""Links accounts to identities at a sign-in service. Functions take a session and never commit."""

from __future__ import annotations

import uuid

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from webapp.models import Account, Identity


def account_of(session: Session, issuer: str, subject: str) -> Account | None:
    """Return the account that this identity opens; None if it is not linked."""
    return session.execute(
        select(Account)
        .join(Identity, Identity.account_id == Account.id)
        .where(Identity.issuer == issuer, Identity.subject == subject)
        .execution_options(populate_existing=True)
    ).scalar_one_or_none()


def link(session: Session, issuer: str, subject: str, account_id: uuid.UUID) -> bool:
    """Link this identity to the account. Returns False if it is linked to another one, and leaves that unchanged."""
    session.execute(
        insert(Identity).values(issuer=issuer, subject=subject, account_id=account_id).on_conflict_do_nothing()
    )
    return (
        session.execute(
            select(Identity.account_id).where(Identity.issuer == issuer, Identity.subject == subject)
        ).scalar_one()
        == account_id
    )


def is_linked(session: Session, account_id: uuid.UUID, issuer: str) -> bool:
    """Return True if an identity at this service opens the account."""
    found = select(Identity.subject).where(Identity.account_id == account_id, Identity.issuer == issuer).limit(1)
    return session.execute(found).first() is not None


def unlink(session: Session, account_id: uuid.UUID, issuer: str) -> None:
    """Unlink all identities at this service from the account."""
    session.execute(delete(Identity).where(Identity.account_id == account_id, Identity.issuer == issuer))
