"""The limits of an account: jobs in 24 hours, unfinished jobs at once, tokens in a month.

Usage is counted in the database, under a lock for each account. So the limits hold without Redis, and two concurrent
requests cannot both use the last free job. A job is counted when it is accepted; a request that leads to an existing
job is not counted.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Uuid, delete, func, or_, select, text, true
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.models import Instant, Job
from tasks.ledger.models.limits import AcceptedJob, AccountLimits, TokensOfMonth
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.terms import Limits

DAY_SECONDS = 24 * 3600


class Limit(StrEnum):
    """The quantities that are limited."""

    JOBS_PER_DAY = "jobs_per_day"
    JOBS_AT_ONCE = "jobs_at_once"
    TOKENS_PER_MONTH = "tokens_per_month"


@dataclass(frozen=True)
class Allowance:
    """The usage of one limit. `maximum` is the limit itself, None if there is none.

    `until` is None while the limit is not reached, otherwise the latest time at which it allows the next job. `now` is
    the time of the count, by the database's clock.
    """

    limit: Limit
    maximum: int | None
    used: int
    until: datetime | None
    now: datetime

    @property
    def left(self) -> int | None:
        """Return how much is left, None if there is no limit."""
        return None if self.maximum is None else max(0, self.maximum - self.used)


class LimitReached(Exception):
    """Raised when a limit does not allow another job now. `allowance` says which limit it is, and until when."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__(allowance.limit)
        self.allowance = allowance


LimitUsage = Mapping[Limit, Allowance]


def limits_of(session: Session, account_id: uuid.UUID, site: Limits) -> Limits:
    """Return the limits of this account: those that an operator has set for it, and the site's where none is set."""
    return _effective(own_limits(session, account_id), site)


def _effective(own: Limits, site: Limits) -> Limits:
    """Return the account's own limits, with the site's for those that are None. 0 (no limit) becomes None."""
    chosen = {limit: _own_or_site(getattr(own, limit), getattr(site, limit)) for limit in Limit}
    return Limits(**{str(limit): value or None for limit, value in chosen.items()})


def _own_or_site(own: int | None, of_site: int | None) -> int | None:
    return of_site if own is None else own


def own_limits(session: Session, account_id: uuid.UUID) -> Limits:
    """Return the limits that an operator has set for this account. None: not set, the site's applies; 0: no limit."""
    return _own(session.get(AccountLimits, account_id, populate_existing=True))


def _own(row: AccountLimits | None) -> Limits:
    return Limits() if row is None else Limits(row.jobs_per_day, row.jobs_at_once, row.tokens_per_month)


def set_limits(session: Session, account_id: uuid.UUID, changed: Mapping[Limit, int | None]) -> tuple[Limits, Limits]:
    """Set some of the account's own limits, see `own_limits`. Return all of them before and after the change.

    The account's lock makes concurrent changes run one after the other, so that each returns the true values before.
    """
    _lock_account(session, account_id)
    before = own_limits(session, account_id)
    own = replace(before, **{str(limit): value for limit, value in changed.items()})
    values: dict[str, Any] = {**{str(limit): getattr(own, limit) for limit in Limit}, "changed_at": func.now()}
    statement = upsert(AccountLimits).values(account_id=account_id, **values)
    session.execute(statement.on_conflict_do_update(index_elements=[AccountLimits.account_id], set_=values))
    return before, own


@dataclass(frozen=True)
class Use:
    """The present usage of an account and its limits. `own` True: an operator has set some of them."""

    at_once: int
    tokens: int
    limits: Limits
    own: bool


def use_of(session: Session, account_ids: Collection[uuid.UUID], site: Limits) -> dict[uuid.UUID, Use]:
    """Return the unfinished jobs, the tokens of this month and the limits of several accounts, with three queries."""
    unfinished = select(Job.account_id, func.count()).where(Job.account_id.in_(account_ids), Job.finished_at.is_(None))
    at_once = dict(session.execute(unfinished.group_by(Job.account_id)).all())
    of_month = select(TokensOfMonth.account_id, TokensOfMonth.tokens).where(
        TokensOfMonth.account_id.in_(account_ids), TokensOfMonth.begins_at == _month()
    )
    tokens = dict(session.execute(of_month).all())
    set_for = select(AccountLimits).where(AccountLimits.account_id.in_(account_ids))
    own = {row.account_id: _own(row) for row in session.execute(set_for).scalars()}
    return {
        account_id: Use(
            at_once.get(account_id, 0),
            tokens.get(account_id, 0),
            _effective(own.get(account_id, Limits()), site),
            own.get(account_id, Limits()) != Limits(),
        )
        for account_id in account_ids
    }


def _of_day(account_id: Any) -> list[ColumnElement[bool]]:
    return [AcceptedJob.account_id == account_id, AcceptedJob.at > func.now() - seconds(DAY_SECONDS)]


def _unfinished(account_id: Any) -> list[ColumnElement[bool]]:
    return [Job.account_id == account_id, Job.finished_at.is_(None)]


def _usage_query() -> Select[*tuple[Any, ...]]:
    account_id, except_job = parameter("account_id", Uuid()), parameter("except_job", Uuid())
    of_day = select(func.count()).where(
        *_of_day(account_id), or_(except_job.is_(None), AcceptedJob.job_id != except_job)
    )
    at_once = select(func.count()).where(*_unfinished(account_id), or_(except_job.is_(None), Job.id != except_job))
    tokens = select(TokensOfMonth.tokens).where(
        TokensOfMonth.account_id == account_id, TokensOfMonth.begins_at == _month()
    )
    own = select(AccountLimits).where(AccountLimits.account_id == account_id).subquery()
    one = select(func.now().label("now")).subquery()
    return (
        select(
            one.c.now,
            own.c.jobs_per_day,
            own.c.jobs_at_once,
            own.c.tokens_per_month,
            of_day.scalar_subquery(),
            at_once.scalar_subquery(),
            func.coalesce(tokens.scalar_subquery(), 0),
        )
        .select_from(one)
        .outerjoin(own, true())
    )


def usage_of(
    on: Connection | Session, account_id: uuid.UUID, site: Limits, *, except_job: uuid.UUID | None = None
) -> LimitUsage:
    """Return the account's usage of all limits. The job `except_job` is not counted, except for its tokens."""
    row = _USAGE.execute(on, account_id=account_id, except_job=except_job).one()
    allowed, now = _effective(Limits(*row[1:4]), site), row[0].astimezone(UTC)
    used: dict[Limit, int] = dict(zip(Limit, row[4:], strict=True))
    maximum = {limit: getattr(allowed, limit) for limit in Limit}
    return {
        limit: Allowance(
            limit,
            maximum[limit],
            used[limit],
            _free_at(on, account_id, limit, used[limit] - maximum[limit], except_job)
            if maximum[limit] is not None and used[limit] >= maximum[limit]
            else None,
            now,
        )
        for limit in Limit
    }


def _free_at(
    on: Connection | Session, account_id: uuid.UUID, limit: Limit, surplus: int, except_job: uuid.UUID | None
) -> datetime | None:
    """Return the time at which so little is still counted that the limit, which is reached, allows another job.

    `surplus` is how much more than the limit is counted now.
    """
    if limit is Limit.TOKENS_PER_MONTH:
        return on.execute(select(_month(after=1))).scalar_one()
    if limit is Limit.JOBS_PER_DAY:
        ends: ColumnElement[Any] = AcceptedJob.at + seconds(DAY_SECONDS)
        counted, job_id = _of_day(account_id), AcceptedJob.job_id
    else:
        ends = func.greatest(Job.deadline_at, Job.reserved_until, type_=Instant())  # greatest() ignores NULL
        counted, job_id = _unfinished(account_id), Job.id
    if except_job is not None:
        counted.append(job_id != except_job)
    in_order = select(ends).where(*counted).order_by(ends).offset(surplus).limit(1)
    free_at: datetime | None = on.execute(in_order).scalar_one_or_none()
    return free_at


def _month(*, after: int = 0) -> ColumnElement[datetime]:
    """Return the SQL expression for the start of this month in UTC, or of the month `after` months later."""
    begun = func.date_trunc("month", func.timezone("UTC", func.now())) + func.make_interval(0, after)
    return func.timezone("UTC", begun, type_=Instant())


_USAGE = CompiledStatement(_usage_query())


def require(
    session: Session,
    account_id: uuid.UUID,
    site: Limits,
    *,
    of: Collection[Limit] = tuple(Limit),
    except_job: uuid.UUID | None = None,
) -> None:
    """Raise LimitReached unless the account may add one more job. Of several limits, name the one that lasts longest.

    Takes the account's lock: until the transaction ends, all other checks for this account wait.
    """
    _lock_account(session, account_id)
    usage = usage_of(session, account_id, site, except_job=except_job)
    reached = [usage[limit] for limit in of if usage[limit].until is not None]
    if reached:
        raise LimitReached(max(reached, key=lambda allowance: allowance.until or allowance.now))


def count_tokens(session: Session, account_id: uuid.UUID, tokens: int) -> None:
    """Count tokens that the AI service has reported for this account.

    The caller must hold a lock on a job of the account. Otherwise this could insert a row for an account that is being
    deleted.
    """
    statement = upsert(TokensOfMonth).values(account_id=account_id, begins_at=_month(), tokens=tokens)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[TokensOfMonth.account_id, TokensOfMonth.begins_at],
            set_={"tokens": TokensOfMonth.tokens + tokens},
        )
    )


def delete_usage(session: Session, account_id: uuid.UUID) -> None:
    """Delete all that was counted and set for an account. Its jobs must be deleted before."""
    for table in (AccountLimits, AcceptedJob, TokensOfMonth):
        session.execute(delete(table).where(table.account_id == account_id))


def _lock_account(session: Session, account_id: uuid.UUID) -> None:
    """Let one transaction at a time count this account's jobs, until it commits.

    Otherwise two concurrent requests could both use the last free job.
    """
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"limits {account_id.hex}"})
