"""What an operator does to lanes and limits: each action and its row in the audit log, in one transaction."""

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
    """An operator lets calls be made again. How many waiting jobs that lets go; None if the lane was open."""
    let_go = lanes.resume(session, lane, by=by, spread_seconds=spread_seconds)
    if let_go is not None:
        audit_log.write_down(session, queue, Decided.OPEN_LANE, by=by, note=note, lane=lane, let_go=let_go)
    return let_go


def set_limits(
    session: Session,
    queue: str,
    account_id: uuid.UUID,
    wanted: Mapping[Limit, int | None],
    *,
    by: str,
    note: str | None,
) -> bool:
    """An operator sets some limits of one account; None: as the site has it. False: they were so before.

    Raises IntegrityError when there is no such account any more.
    """
    before, after = limits.set_limits(session, account_id, wanted)
    changed = {
        str(limit): f"{_in_word(getattr(before, limit))} → {_in_word(getattr(after, limit))}"
        for limit in Limit
        if getattr(before, limit) != getattr(after, limit)
    }
    if changed:
        audit_log.write_down(session, queue, Decided.SET_LIMITS, by=by, note=note, account=str(account_id), **changed)
    return bool(changed)


def _in_word(limit: int | None) -> str:
    return "site" if limit is None else "no limit" if limit == 0 else str(limit)
