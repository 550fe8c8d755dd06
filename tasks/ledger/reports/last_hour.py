"""The figures of the last hour, for monitoring. Nothing here writes, and all queries use indexes on time.

There are no counters over all time, since for these the whole jobs table would have to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from tasks.ledger.models import Attempt, Job, JobEvent, ProviderCall
from tasks.ledger.reports.last_day import SHUTDOWN
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import SETBACKS, CallOutcome, Event, Outcome, State

HOUR_SECONDS = 3600.0
QUANTILES = (0.5, 0.95)


@dataclass(frozen=True)
class Durations:
    """The distribution of a duration, in seconds. `quantiles` are those of QUANTILES, empty if nothing was measured."""

    count: int
    total_seconds: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class LastHour:
    """The counts of the hour up to now, by the database's clock.

    `ended` is by final state and category, `attempts` by outcome, and `calls` by outcome and category, of the calls
    that began within the hour; a category is "" if there is none. `waiting` is from acceptance to the first claim, of
    the jobs that ended. `working` is the duration of an attempt.
    """

    accepted: int
    ended: Mapping[tuple[str, str], int]
    attempts: Mapping[str, int]
    calls: Mapping[tuple[str, str], int]
    input_tokens: int
    output_tokens: int
    retries: int
    interruptions: int
    waiting: Durations
    working: Durations


def last_hour(session: Session) -> LastHour:
    """Return all figures of the last hour."""
    calls, input_tokens, output_tokens = _calls(session)
    setbacks = _setbacks(session)
    return LastHour(
        accepted=session.execute(select(func.count()).where(_within(Job.created_at))).scalar_one(),
        ended=_ended(session),
        attempts=_attempts(session),
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        retries=sum(n for (event, _), n in setbacks.items() if event == Event.RETRY_LATER),
        interruptions=sum(n for (event, why), n in setbacks.items() if event == Event.EXPIRE or why == SHUTDOWN),
        waiting=_durations(session, Job.started_at - Job.created_at, Job.finished_at),
        working=_durations(session, Attempt.ended_at - Attempt.started_at, Attempt.ended_at),
    )


def jobs_estimate(session: Session) -> int:
    """Return the approximate number of jobs from PostgreSQL's statistics; 0 before the first ANALYZE."""
    return int(
        session.execute(text("SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = 'jobs'::regclass")).scalar_one()
    )


def _within(instant: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    return instant > func.now() - seconds(HOUR_SECONDS)


def _ended(session: Session) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {(state, ""): 0 for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)}
    category = func.coalesce(Job.error_category, "")
    for state, why, count in session.execute(
        select(Job.state, category, func.count()).where(_within(Job.finished_at)).group_by(Job.state, category)
    ):
        # A job that succeeded keeps the cause of its last failed attempt, which does not count here.
        key = (state, why if state == State.FAILED else "")
        found[key] = found.get(key, 0) + count
    return found


def _attempts(session: Session) -> dict[str, int]:
    rows = session.execute(
        select(Attempt.outcome, func.count()).where(_within(Attempt.ended_at)).group_by(Attempt.outcome)
    )
    found = {outcome: count for outcome, count in rows}
    return {outcome: found.get(outcome, 0) for outcome in Outcome}


def _calls(session: Session) -> tuple[dict[tuple[str, str], int], int, int]:
    found: dict[tuple[str, str], int] = {(outcome, ""): 0 for outcome in CallOutcome}
    input_tokens = output_tokens = 0
    category = func.coalesce(ProviderCall.error_category, "")
    for outcome, why, count, input_sum, output_sum in session.execute(
        select(
            ProviderCall.outcome,
            category,
            func.count(),
            func.coalesce(func.sum(ProviderCall.input_tokens), 0),
            func.coalesce(func.sum(ProviderCall.output_tokens), 0),
        )
        .where(_within(ProviderCall.started_at))
        .group_by(ProviderCall.outcome, category)
    ):
        found[outcome, why] = count
        input_tokens += int(input_sum or 0)
        output_tokens += int(output_sum or 0)
    return found, input_tokens, output_tokens


def _setbacks(session: Session) -> dict[tuple[str, str | None], int]:
    reason = JobEvent.facts["reason"].as_string()
    rows = session.execute(
        select(JobEvent.event, reason, func.count())
        .where(_within(JobEvent.at), JobEvent.event.in_(list(SETBACKS)))
        .group_by(JobEvent.event, reason)
    )
    return {(event, why): count for event, why, count in rows}


def _durations(session: Session, took: ColumnElement[Any], ended: InstrumentedAttribute[Any]) -> Durations:
    duration = func.extract("epoch", took)
    count, total, *quantiles = session.execute(
        select(
            func.count(duration),
            func.coalesce(func.sum(duration), 0),
            *(func.percentile_cont(share).within_group(duration) for share in QUANTILES),
        ).where(_within(ended))
    ).one()
    return Durations(count, float(total), tuple(float(each) for each in quantiles) if count else ())
