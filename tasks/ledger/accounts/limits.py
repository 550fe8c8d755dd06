"""How much one account may ask for: jobs in 24 hours, unfinished jobs at once, tokens in a month.

Counted in the database and under a lock, so the limits hold without Redis, and two requests at once do not both get
the last place. A job is counted when it is accepted; the same wish again leads to the same job, and is not.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from tasks.ledger.models import Instant, Job
from tasks.ledger.models.limits import AcceptedJob, AccountLimits, TokensOfMonth
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.terms import Limits

DAY_SECONDS = 24 * 3600


class Limit(StrEnum):
    """What is limited."""

    JOBS_PER_DAY = "jobs_per_day"
    JOBS_AT_ONCE = "jobs_at_once"
    TOKENS_PER_MONTH = "tokens_per_month"


@dataclass(frozen=True)
class Allowance:
    """How far one limit is used up. `most` None: no limit. `until`: when it lets the next one through, at the latest;
    None while it does. `now` is the database's clock."""

    limit: Limit
    most: int | None
    used: int
    until: datetime | None
    now: datetime

    @property
    def left(self) -> int | None:
        """What may still be asked for; None: as much as one likes."""
        return None if self.most is None else max(0, self.most - self.used)


class LimitReached(Exception):
    """The account may not ask for this now. `allowance` says which limit that is, and until when."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__(allowance.limit)
        self.allowance = allowance


LimitUsage = Mapping[Limit, Allowance]


def limits_of(session: Session, account_id: uuid.UUID, site: Limits) -> Limits:
    """What this account may ask for: what an operator has set for it, else what the site allows everybody."""
    return _that_hold(own_limits(session, account_id), site)


def _that_hold(own: Limits, site: Limits) -> Limits:
    chosen = {limit: _first(getattr(own, limit), getattr(site, limit)) for limit in Limit}
    return Limits(**{str(limit): most or None for limit, most in chosen.items()})


def _first(own: int | None, of_site: int | None) -> int | None:
    return of_site if own is None else own


def own_limits(session: Session, account_id: uuid.UUID) -> Limits:
    """What an operator has set for this account. None: nothing, so the site's limit holds; 0: no limit."""
    return _own(session.get(AccountLimits, account_id, populate_existing=True))


def _own(row: AccountLimits | None) -> Limits:
    return Limits() if row is None else Limits(row.jobs_per_day, row.jobs_at_once, row.tokens_per_month)


def set_limits(session: Session, account_id: uuid.UUID, changed: Mapping[Limit, int | None]) -> tuple[Limits, Limits]:
    """Set some of the account's own limits, see `own_limits`; all of them as they were, and as they are now.

    Two who change them at the same time do so one after the other, so that each is told what was there before.
    """
    _count_alone(session, account_id)
    before = own_limits(session, account_id)
    own = replace(before, **{str(limit): most for limit, most in changed.items()})
    values: dict[str, Any] = {**{str(limit): getattr(own, limit) for limit in Limit}, "changed_at": func.now()}
    statement = upsert(AccountLimits).values(account_id=account_id, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[AccountLimits.account_id], set_=values))
    return before, own


@dataclass(frozen=True)
class Use:
    """What an account asks for now, and what it may. `own`: an operator has set some of its limits."""

    at_once: int
    tokens: int
    most: Limits
    own: bool


def use_of(session: Session, account_ids: Collection[uuid.UUID], site: Limits) -> dict[uuid.UUID, Use]:
    """The use of several accounts, in one question a table: unfinished jobs, and tokens of this month."""
    unfinished = select(Job.account_id, func.count()).where(Job.account_id.in_(account_ids), Job.finished_at.is_(None))
    at_once = dict(session.execute(unfinished.group_by(Job.account_id)).all())
    of_month = select(TokensOfMonth.account_id, TokensOfMonth.tokens).where(
        TokensOfMonth.account_id.in_(account_ids), TokensOfMonth.begins_at == _month()
    )
    tokens = dict(session.execute(of_month).all())
    set_for = select(AccountLimits).where(AccountLimits.account_id.in_(account_ids))
    own = {row.account_id: _own(row) for row in session.execute(set_for).scalars()}
    return {
        one: Use(
            at_once.get(one, 0),
            tokens.get(one, 0),
            _that_hold(own.get(one, Limits()), site),
            own.get(one, Limits()) != Limits(),
        )
        for one in account_ids
    }


def usage_of(session: Session, account_id: uuid.UUID, site: Limits, *, besides: uuid.UUID | None = None) -> LimitUsage:
    """How far the account has used up its limits. The job `besides` is not counted."""
    most = limits_of(session, account_id, site)
    now = session.execute(select(func.now())).scalar_one()
    found = {
        Limit.JOBS_PER_DAY: _of_day(session, account_id, most.jobs_per_day),
        Limit.JOBS_AT_ONCE: _at_once(session, account_id, most.jobs_at_once, besides),
        Limit.TOKENS_PER_MONTH: _of_month(session, account_id, most.tokens_per_month),
    }
    return {limit: Allowance(limit, getattr(most, limit), *used, now) for limit, used in found.items()}


def _of_day(session: Session, account_id: uuid.UUID, most: int | None) -> tuple[int, datetime | None]:
    of_day = (AcceptedJob.account_id == account_id, AcceptedJob.at > func.now() - seconds(DAY_SECONDS))
    used = session.execute(select(func.count()).select_from(AcceptedJob).where(*of_day)).scalar_one()
    leaves = AcceptedJob.at + seconds(DAY_SECONDS)
    return used, _enough_have_left(session, select(leaves).where(*of_day), leaves, used, most)


def _at_once(
    session: Session, account_id: uuid.UUID, most: int | None, besides: uuid.UUID | None
) -> tuple[int, datetime | None]:
    unfinished = [Job.account_id == account_id, Job.finished_at.is_(None)]
    if besides is not None:
        unfinished.append(Job.id != besides)
    used = session.execute(select(func.count()).select_from(Job).where(*unfinished)).scalar_one()
    ends = func.greatest(Job.deadline_at, Job.reserved_until, type_=Instant())  # greatest() passes over NULL
    return used, _enough_have_left(session, select(ends).where(*unfinished), ends, used, most)


def _enough_have_left(
    session: Session, leaving: Select[Any], moment: ColumnElement[Any], used: int, most: int | None
) -> datetime | None:
    """When so many of those that are counted have left that there is a place; None where there is one."""
    if most is None or used < most:
        return None
    found: datetime | None = session.execute(leaving.order_by(moment).offset(used - most).limit(1)).scalar_one_or_none()
    return found


def _of_month(session: Session, account_id: uuid.UUID, most: int | None) -> tuple[int, datetime | None]:
    used = session.execute(
        select(TokensOfMonth.tokens).where(TokensOfMonth.account_id == account_id, TokensOfMonth.begins_at == _month())
    ).scalar_one_or_none()
    if used is None or most is None or used < most:
        return used or 0, None
    return used, session.execute(select(_month(after=1))).scalar_one()


def _month(*, after: int = 0) -> ColumnElement[datetime]:
    """When this month began by UTC, or one after it."""
    begun = func.date_trunc("month", func.timezone("UTC", func.now())) + func.make_interval(0, after)
    return func.timezone("UTC", begun, type_=Instant())


def require(
    session: Session,
    account_id: uuid.UUID,
    site: Limits,
    *,
    of: Collection[Limit] = tuple(Limit),
    besides: uuid.UUID | None = None,
) -> None:
    """Raises LimitReached unless the account may ask for one more job; of several limits, for the one that ends last.

    Until the transaction ends, nobody else is let through for this account.
    """
    _count_alone(session, account_id)
    found = usage_of(session, account_id, site, besides=besides)
    reached = [found[limit] for limit in of if found[limit].until is not None]
    if reached:
        raise LimitReached(max(reached, key=lambda allowance: allowance.until or allowance.now))


def count_job(session: Session, account_id: uuid.UUID, job_id: uuid.UUID) -> None:
    """A job was accepted; those of more than 24 hours ago need not be known any more."""
    session.execute(
        delete(AcceptedJob).where(
            AcceptedJob.account_id == account_id, AcceptedJob.at <= func.now() - seconds(DAY_SECONDS)
        )
    )
    session.execute(insert(AcceptedJob).values(job_id=job_id, account_id=account_id))


def count_tokens(session: Session, account_id: uuid.UUID, tokens: int) -> None:
    """The AI service has reported tokens. Hold a lock of the account's job, else a deleted account comes back here."""
    statement = upsert(TokensOfMonth).values(account_id=account_id, begins_at=_month(), tokens=tokens)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[TokensOfMonth.account_id, TokensOfMonth.begins_at],
            set_={"tokens": TokensOfMonth.tokens + tokens},
        )
    )


def forget_account(session: Session, account_id: uuid.UUID) -> None:
    """Delete all that was counted and set for an account. Its jobs must be gone."""
    for table in (AccountLimits, AcceptedJob, TokensOfMonth):
        session.execute(delete(table).where(table.account_id == account_id))


def _count_alone(session: Session, account_id: uuid.UUID) -> None:
    """Serialises the counting for one account: without the lock two requests would both see the last place."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"limits {account_id.hex}"})
