"""The figures of the last 24 hours, hour by hour. Nothing here writes; each query reads only the rows of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Double, Subquery, case, cast, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tasks.ledger.models import Attempt, Job, JobEvent, ProviderCall
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import SETBACKS, CallOutcome, Event, State

HOURS = 24
SHUTDOWN = "shutdown"
"""Names the reason with which a worker that shuts down hands its jobs back."""


@dataclass(frozen=True)
class Spread:
    """The quantiles of some durations, in seconds: half took at most `p50`, 95 of 100 at most `p95`."""

    p50: float
    p95: float


@dataclass
class Hour:
    """The figures of one hour. `ago` 0 is the hour up to now. The spreads are None if nothing ended in it."""

    ago: int
    accepted: int = 0
    ended: Counter[State] = field(default_factory=Counter)
    waiting: Spread | None = None
    working: Spread | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    retries: int = 0
    interruptions: int = 0


@dataclass(frozen=True)
class ModelUse:
    """The use of one model. Tokens are those of calls that reported both; `unreported` calls may have been billed."""

    model: str
    calls: int
    unknown: int
    unreported: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class LastDay:
    """The 24 hours up to `at`, oldest first. `failed` is by category. A replayed job counts in its present state."""

    at: datetime
    hours: Sequence[Hour]
    failed: Mapping[str, int]
    waiting: Spread | None
    working: Spread | None
    models: Sequence[ModelUse]

    def total(self, name: str) -> int:
        """Return the sum of the figure `name` over all hours."""
        return sum(getattr(hour, name) for hour in self.hours)

    def ended(self, state: State) -> int:
        """Return how many jobs ended in this state."""
        return sum(hour.ended[state] for hour in self.hours)


def last_day(session: Session) -> LastDay:
    """Return all figures of the last 24 hours."""
    hours = [Hour(ago) for ago in range(HOURS)]
    _count_accepted(session, hours)
    failed = _count_ended(session, hours)
    waiting, working = _measure(session, hours)
    models = _sum_calls(session, hours)
    _count_setbacks(session, hours)
    return LastDay(
        at=session.execute(select(func.now())).scalar_one(),
        hours=hours[::-1],
        failed=dict(failed.most_common()),
        waiting=waiting,
        working=working,
        models=models,
    )


def _ago(instant: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """Return SQL for the whole hours since `instant`. A time after this transaction's start counts as now."""
    return func.greatest(func.floor(_in_seconds(func.now() - instant) / 3600), 0)


def _in_seconds(interval: ColumnElement[Any]) -> ColumnElement[float]:
    """Return the interval as a float. EXTRACT gives a numeric, which takes twice as long to sort and divide."""
    return cast(func.extract("epoch", interval), Double)


def _within(instant: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    return instant > func.now() - seconds(HOURS * 3600)


def _count_accepted(session: Session, hours: list[Hour]) -> None:
    ago = _ago(Job.created_at)
    for hour, count in session.execute(select(ago, func.count()).where(_within(Job.created_at)).group_by(ago)):
        hours[int(hour)].accepted = count


def _count_ended(session: Session, hours: list[Hour]) -> Counter[str]:
    ago = _ago(Job.finished_at)
    failed: Counter[str] = Counter()
    for hour, state, category, count in session.execute(
        select(ago, Job.state, Job.error_category, func.count())
        .where(_within(Job.finished_at))
        .group_by(ago, Job.state, Job.error_category)
    ):
        hours[int(hour)].ended[State(state)] += count
        if state == State.FAILED:
            failed[category] += count
    return failed


def _measure(session: Session, hours: list[Hour]) -> tuple[Spread | None, Spread | None]:
    """Fill in waiting and working of each hour, and return both for the whole day.

    Waiting is from acceptance to the first claim, of the jobs that ended. Working is the sum of a job's attempts.
    """
    waited = (
        select(
            _ago(Job.finished_at).label("ago"),
            _in_seconds(Job.started_at - Job.created_at).label("took"),
        )
        .where(_within(Job.finished_at), Job.started_at.is_not(None))
        .subquery()
    )
    # From the attempts table alone: a join with the jobs would take longer than the rest of the page.
    worked = (
        select(
            _ago(func.max(Attempt.ended_at)).label("ago"),
            _in_seconds(func.sum(Attempt.ended_at - Attempt.started_at)).label("took"),
        )
        .where(_within(Attempt.ended_at))
        .group_by(Attempt.job_id)
        .subquery()
    )
    waits, works = _spreads(session, waited), _spreads(session, worked)
    for hour in hours:
        hour.waiting, hour.working = waits.get(hour.ago), works.get(hour.ago)
    return waits.get(None), works.get(None)


def _spreads(session: Session, durations: Subquery) -> dict[int | None, Spread]:
    """Return the spread of each hour, and under None that of the whole day."""
    p50, p95 = (func.percentile_cont(share).within_group(durations.c.took) for share in (0.5, 0.95))
    rows = session.execute(
        select(durations.c.ago, p50, p95).where(durations.c.took.is_not(None)).group_by(func.rollup(durations.c.ago))
    )
    return {
        None if ago is None else int(ago): Spread(float(middle), float(slow))
        for ago, middle, slow in rows
        if middle is not None
    }


def _sum_calls(session: Session, hours: list[Hour]) -> list[ModelUse]:
    ago = _ago(ProviderCall.started_at)
    unreported = ProviderCall.input_tokens.is_(None) & ProviderCall.output_tokens.is_(None)
    reported = ProviderCall.input_tokens.is_not(None) & ProviderCall.output_tokens.is_not(None)
    may_cost = ProviderCall.outcome.not_in([CallOutcome.OPEN, CallOutcome.FAILED])
    use: dict[str, list[int]] = {}
    for hour, model, *counts in session.execute(
        select(
            ago,
            ProviderCall.model,
            func.count(),
            func.count().filter(ProviderCall.outcome == CallOutcome.UNKNOWN),
            func.count().filter(unreported & may_cost),
            func.coalesce(func.sum(case((reported, ProviderCall.input_tokens))), 0),
            func.coalesce(func.sum(case((reported, ProviderCall.output_tokens))), 0),
        )
        .where(_within(ProviderCall.started_at))
        .group_by(ago, ProviderCall.model)
    ):
        hours[int(hour)].input_tokens += counts[3]
        hours[int(hour)].output_tokens += counts[4]
        use[model] = [sum(pair) for pair in zip(use.get(model, [0] * 5), counts, strict=True)]
    return [ModelUse(model, *counts) for model, counts in sorted(use.items())]


def _count_setbacks(session: Session, hours: list[Hour]) -> None:
    ago, reason = _ago(JobEvent.at), JobEvent.facts["reason"].as_string()
    for hour, event, why, count in session.execute(
        select(ago, JobEvent.event, reason, func.count())
        .where(_within(JobEvent.at), JobEvent.event.in_(list(SETBACKS)))
        .group_by(ago, JobEvent.event, reason)
    ):
        if event == Event.RETRY_LATER:
            hours[int(hour)].retries += count
        elif event == Event.EXPIRE or why == SHUTDOWN:
            hours[int(hour)].interruptions += count
