"""Who an account is to a sign-in service. Functions take a session and never commit."""

from __future__ import annotations

import uuid

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from webapp.models import Account, Identity


def account_of(session: Session, issuer: str, subject: str) -> Account | None:
    """The account that this identity opens; None: none so far."""
    return session.execute(
        select(Account)
        .join(Identity, Identity.account_id == Account.id)
        .where(Identity.issuer == issuer, Identity.subject == subject)
        .execution_options(populate_existing=True)
    ).scalar_one_or_none()


def link(session: Session, issuer: str, subject: str, account_id: uuid.UUID) -> bool:
    """From now on this identity opens the account. False: it opens another one already, and goes on doing so."""
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
    """Whether some identity at this service opens the account."""
    found = select(Identity.subject).where(Identity.account_id == account_id, Identity.issuer == issuer).limit(1)
    return session.execute(found).first() is not None


def unlink(session: Session, account_id: uuid.UUID, issuer: str) -> None:
    """No identity at this service opens the account any more."""
    session.execute(delete(Identity).where(Identity.account_id == account_id, Identity.issuer == issuer))
