"""Manages invitations: each creates one account, once, within some days. The link is shown once; its hash is stored."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.sql_intervals import seconds
from webapp.models import Invitation

DAYS, MAX_DAYS = 7, 90
MAX_SHOWN = 200
KEPT_SECONDS = 30 * 24 * 3600.0


class InvitationOver(Exception):
    """Raised if the invitation is used, expired or revoked."""


def invite(session: Session, *, email: str | None, made_by: str | None, days: int = DAYS) -> str:
    """Create an invitation and return its token, which cannot be read again.

    `email` None allows any address. Deletes invitations that ended long ago.
    """
    session.execute(
        delete(Invitation).where(
            func.coalesce(Invitation.used_at, Invitation.expires_at) < func.now() - seconds(KEPT_SECONDS)
        )
    )
    token = secrets.token_urlsafe(32)
    expires_at = func.now() + seconds(days * 24 * 3600.0)
    session.add(Invitation(token_hash=_hash(token), email=email, made_by=made_by, expires_at=expires_at))
    return token


def open_one(session: Session, token: str) -> Invitation | None:
    """Return the invitation of a token, while it can be used; else None."""
    return session.execute(
        select(Invitation).where(Invitation.token_hash == _hash(token), *_open())
    ).scalar_one_or_none()


def use(session: Session, invitation_id: uuid.UUID) -> None:
    """Use the invitation up, in the transaction that adds the account.

    Raises InvitationOver; then nothing may be committed.
    """
    used = session.execute(
        update(Invitation)
        .where(Invitation.id == invitation_id, *_open())
        .values(used_at=func.now())
        .returning(Invitation.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if used is None:
        raise InvitationOver


def open_ones(session: Session) -> Sequence[Invitation]:
    """Return the invitations that can still be used, newest first."""
    newest = select(Invitation).where(*_open()).order_by(Invitation.created_at.desc(), Invitation.id)
    return session.execute(newest.limit(MAX_SHOWN)).scalars().all()


def revoke(session: Session, invitation_id: uuid.UUID) -> bool:
    """Revoke an invitation. Returns False if it was used before, or does not exist."""
    return bool(
        session.execute(
            delete(Invitation).where(Invitation.id == invitation_id, *_open()).returning(Invitation.id)
        ).all()
    )


def _open() -> list[ColumnElement[bool]]:
    return [Invitation.used_at.is_(None), Invitation.expires_at > func.now()]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
