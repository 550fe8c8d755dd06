"""The append-only record of what operators decided. Nothing here, or anywhere, changes a row of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tasks.ledger import lanes, limits
from tasks.ledger.decision_models import Decided, Decision
from tasks.ledger.limits import Limit


def write_down(session: Session, queue: str, what: Decided, *, by: str, note: str | None, **facts: object) -> None:
    """Write down who decided what, and why. Facts that are None are left out."""
    session.execute(
        insert(Decision).values(
            queue=queue,
            what=what,
            by=by,
            note=note or None,
            facts={key: value for key, value in facts.items() if value is not None},
        )
    )


def open_lane(
    session: Session, queue: str, lane: str, *, by: str, note: str | None, spread_seconds: float
) -> int | None:
    """An operator lets calls be made again. How many waiting jobs that lets go; None if the lane was open."""
    let_go = lanes.resume(session, lane, by=by, spread_seconds=spread_seconds)
    if let_go is not None:
        write_down(session, queue, Decided.OPEN_LANE, by=by, note=note, lane=lane, let_go=let_go)
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
        write_down(session, queue, Decided.SET_LIMITS, by=by, note=note, account=str(account_id), **changed)
    return bool(changed)


def _in_word(limit: int | None) -> str:
    return "site" if limit is None else "no limit" if limit == 0 else str(limit)


def about_account(session: Session, account_id: uuid.UUID, *, limit: int) -> Sequence[Decision]:
    """What was decided about one account, newest first."""
    statement = select(Decision).where(Decision.facts["account"].astext == str(account_id))
    return session.execute(statement.order_by(Decision.id.desc()).limit(limit)).scalars().all()


def newest(session: Session, queue: str, *, limit: int, before: int | None = None) -> Sequence[Decision]:
    """What was decided about this queue, newest first. `before` is the id of the last one already seen."""
    statement = select(Decision).where(Decision.queue == queue)
    if before is not None:
        statement = statement.where(Decision.id < before)
    return session.execute(statement.order_by(Decision.id.desc()).limit(limit)).scalars().all()
