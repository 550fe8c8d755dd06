"""An operator's decisions about an account: disable, enable, revoke its API tokens, give or take the operator's role.

Each decision is recorded with its reason, in the transaction that carries it out. Functions take a session and never
commit.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tasks.ledger.accounts import disabled
from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.history.audit_log import record
from tasks.ledger.models.control import Decided
from webapp.auth import accounts
from webapp.models import Account, Role


class NotDecided(Exception):
    """Raised if nothing was done; the message is a sentence that says why."""


OWN_ACCOUNT = "This is your own account. Another operator can do that, or `flask accounts` at a terminal."
LAST_OPERATOR = "This is the last operator who can sign in. Make somebody else an operator first."


@dataclass(frozen=True)
class Deciding:
    """Represents the operator who decides, and the reason.

    `account_id` is the operator's account; None at a terminal.
    """

    queue: str
    by: str
    reason: str
    account_id: uuid.UUID | None = None


def disable(session: Session, account: Account, deciding: Deciding) -> bool:
    """Lock an account out, so that none of its jobs start.

    Returns False if it was already disabled. Raises NotDecided.
    """
    _require_another_operator(session, account, deciding)
    if not disabled.disable(session, account.id):
        return False
    accounts.end_sessions(session, account.id)
    _record(session, Decided.DISABLE_ACCOUNT, account, deciding)
    return True


def enable(session: Session, account: Account, deciding: Deciding) -> bool:
    """Let an account in again, and let its waiting jobs start. Returns False if it was not disabled."""
    if not disabled.enable(session, account.id):
        return False
    _record(session, Decided.ENABLE_ACCOUNT, account, deciding)
    return True


def revoke_tokens(session: Session, account: Account, deciding: Deciding) -> int:
    """Revoke all API tokens of the account. Returns how many there were."""
    revoked = accounts.revoke_tokens(session, account.id)
    if revoked:
        _record(session, Decided.REVOKE_TOKENS, account, deciding, tokens=revoked)
    return revoked


def demote(session: Session, account: Account, deciding: Deciding) -> bool:
    """Take the operator's role away. Returns False if the account did not have it. Raises NotDecided."""
    _require_another_operator(session, account, deciding)
    return _set_role(session, Decided.DEMOTE, account, Role.USER, deciding)


def promote(session: Session, account: Account, deciding: Deciding) -> bool:
    """Give an account the operator's role. Returns False if it already had it."""
    return _set_role(session, Decided.PROMOTE, account, Role.OPERATOR, deciding)


def _set_role(session: Session, what: Decided, account: Account, role: Role, deciding: Deciding) -> bool:
    changed = session.execute(
        update(Account)
        .where(Account.id == account.id, Account.role != role)
        .values(role=role)
        .returning(Account.id)
        .execution_options(synchronize_session=False)
    ).all()
    if changed:
        _record(session, what, account, deciding)
    return bool(changed)


def _require_another_operator(session: Session, account: Account, deciding: Deciding) -> None:
    """Raise NotDecided for the operator's own account, and for the last operator who can sign in.

    All operators are locked in the order of their ids, so that two who decide about each other are serialized.
    """
    if account.id == deciding.account_id:
        raise NotDecided(OWN_ACCOUNT)
    operators = session.execute(
        select(Account.id).where(Account.role == Role.OPERATOR).order_by(Account.id).with_for_update()
    ).scalars()
    locked = set(operators)
    if account.id not in locked:
        return
    other_operator = session.execute(
        select(Account.id).where(Account.id.in_(locked), Account.id != account.id, ~is_disabled(Account.id)).limit(1)
    ).first()
    if other_operator is None:
        raise NotDecided(LAST_OPERATOR)


def _record(session: Session, what: Decided, account: Account, deciding: Deciding, **facts: object) -> None:
    record(session, deciding.queue, what, by=deciding.by, note=deciding.reason, account=str(account.id), **facts)
