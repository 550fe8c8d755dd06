"""Manages API tokens. A token is shown once; only its hash is stored, found by a unique index."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Sequence

from sqlalchemy import Text, delete, false, func, select, update
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.sql_intervals import seconds
from webapp.database import reading, transaction
from webapp.models import ApiToken

MAX_TOKENS = 20
USE_IS_NOTED_EVERY_SECONDS = 60


def make_token(session: Session, account_id: uuid.UUID, name: str) -> str:
    """Create a token for the account and return it. It cannot be read again."""
    token = f"wb_{secrets.token_urlsafe(32)}"
    session.add(ApiToken(account_id=account_id, name=name, token_hash=_hash(token)))
    return token


class AccountDisabled(Exception):
    """Raised if the token is valid but an operator has disabled its account."""


_IS_NOTED = ApiToken.last_used_at > func.now() - seconds(USE_IS_NOTED_EVERY_SECONDS)
_OWNER = CompiledStatement(
    select(
        ApiToken.id,
        ApiToken.account_id,
        is_disabled(ApiToken.account_id).label("disabled"),
        func.coalesce(_IS_NOTED, false()).label("is_noted"),
    ).where(ApiToken.token_hash == parameter("token_hash", Text()))
)


def owner_of(token: str) -> uuid.UUID | None:
    """Find the account of a token with one statement, and record its use at most once a minute.

    Returns None if the token is unknown. Raises AccountDisabled.
    """
    with reading() as connection:
        found = _OWNER.execute(connection, token_hash=_hash(token)).one_or_none()
    if found is None:
        return None
    if found.disabled:
        raise AccountDisabled
    if not found.is_noted:
        with transaction() as session:
            session.execute(
                update(ApiToken)
                .where(ApiToken.id == found.id, ~func.coalesce(_IS_NOTED, false()))
                .values(last_used_at=func.now())
                .execution_options(synchronize_session=False)
            )
    account_id: uuid.UUID = found.account_id
    return account_id


def tokens_of(session: Session, account_id: uuid.UUID) -> Sequence[ApiToken]:
    """Return the account's tokens, newest first."""
    return (
        session.execute(
            select(ApiToken).where(ApiToken.account_id == account_id).order_by(ApiToken.created_at.desc(), ApiToken.id)
        )
        .scalars()
        .all()
    )


def revoke(session: Session, token_id: uuid.UUID, account_id: uuid.UUID) -> bool:
    """Revoke a token. Returns False if the account has no such token."""
    return bool(
        session.execute(
            delete(ApiToken).where(ApiToken.id == token_id, ApiToken.account_id == account_id).returning(ApiToken.id)
        ).all()
    )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
