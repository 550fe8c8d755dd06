"""The actions of operators on lanes and limits, each in one transaction with its row in the audit log."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.calls import lanes
from tasks.ledger.history import audit_log
from tasks.ledger.models.control import Decided


def open_lane(
    session: Session, queue: str, lane: str, *, by: str, note: str | None, spread_seconds: float
) -> int | None:
    """Open a lane for an operator and return how many waiting jobs are released. Returns None if it was open."""
    released = lanes.resume(session, lane, by=by, spread_seconds=spread_seconds)
    if released is not None:
        audit_log.record(session, queue, Decided.OPEN_LANE, by=by, note=note, lane=lane, let_go=released)
    return released


def set_limits(
    session: Session,
    queue: str,
    account_id: uuid.UUID,
    changed: Mapping[Limit, int | None],
    *,
    by: str,
    note: str | None,
) -> bool:
    """Set some limits of an account for an operator; None: the site's limit applies.

    Returns False if nothing changed. Raises IntegrityError if the account does not exist any more.
    """
    before, after = limits.set_limits(session, account_id, changed)
    differences = {
        str(limit): f"{_limit_text(getattr(before, limit))} → {_limit_text(getattr(after, limit))}"
        for limit in Limit
        if getattr(before, limit) != getattr(after, limit)
    }
    if differences:
        audit_log.record(session, queue, Decided.SET_LIMITS, by=by, note=note, account=str(account_id), **differences)
    return bool(differences)


def _limit_text(limit: int | None) -> str:
    return "site" if limit is None else "no limit" if limit == 0 else str(limit)
