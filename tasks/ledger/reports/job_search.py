"""The operators' list of all jobs: filters, pages, and the search for one job. Nothing here writes.

A page costs the same wherever it is in the list and whatever its filters are. Each filter has an index in the order of
the list. Of several filters, the one that matches the fewest jobs selects by its index, and at most `MAX_CHECKED` of
these jobs are checked for one page. If that does not fill the page, the page says so, and the next begins there.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, tuple_
from sqlalchemy.orm import Session, aliased

from tasks.ledger.keys import id_range_of
from tasks.ledger.models import Job
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import State

MAX_CHECKED = 2000
Cursor = tuple[datetime, uuid.UUID]


@dataclass(frozen=True)
class JobFilters:
    """The filters of the list. None: no filter. The ages are in seconds since the job was accepted."""

    state: State | None = None
    category: str | None = None
    account_id: uuid.UUID | None = None
    workflow: str | None = None
    younger_than: float | None = None
    older_than: float | None = None


@dataclass(frozen=True)
class Listed:
    """A job as the list shows it: without its title, which belongs to the user's content."""

    id: uuid.UUID
    account_id: uuid.UUID
    workflow: str
    state: State
    error_category: str | None
    error_code: str | None
    attempts: int
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True)
class Page:
    """A page of jobs, newest first. `older` is the cursor of the next page, None at the end.

    `cut_short`: as many jobs were checked as is allowed for one page, and did not fill it. There may be more.
    """

    jobs: Sequence[Listed]
    older: Cursor | None
    cut_short: bool


def list_page(session: Session, requested: JobFilters, *, limit: int, before: Cursor | None = None) -> Page:
    """Return a page of the jobs that match the filters. `before` is `older` of the previous page."""
    filters = _filters(requested)
    within = _ages(requested)
    if before is not None:
        within.append(tuple_(Job.created_at, Job.id) < tuple_(*before))
    leading = _fewest(session, filters, within)
    candidates = (
        select(Job)
        .where(*within, *([getattr(Job, leading) == filters.pop(leading)] if leading else []))
        .order_by(Job.created_at.desc(), Job.id.desc())
    )
    if filters:
        checked = aliased(Job, candidates.limit(MAX_CHECKED).subquery())
        matching = (
            select(checked)
            .where(*(getattr(checked, column) == value for column, value in filters.items()))
            .order_by(checked.created_at.desc(), checked.id.desc())
        )
    else:
        matching = candidates
    found = [_listed(job) for job in session.execute(matching.limit(limit + 1)).scalars()]
    if len(found) > limit:
        return Page(found[:limit], (found[limit - 1].created_at, found[limit - 1].id), False)
    last_checked = None
    if filters:
        # The last job that was checked, if there were as many as allowed: the next page begins after it.
        last = candidates.with_only_columns(Job.created_at, Job.id).offset(MAX_CHECKED - 1).limit(1)
        last_checked = session.execute(last).one_or_none()
    return Page(found, last_checked, last_checked is not None)


def _filters(requested: JobFilters) -> dict[str, Any]:
    """Return the filters that compare a column with a value, by the name of the column."""
    asked = {
        "state": requested.state,
        "error_category": requested.category,
        "account_id": requested.account_id,
        "workflow": requested.workflow,
    }
    return {column: value for column, value in asked.items() if value is not None}


def _ages(requested: JobFilters) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of the ages that are asked for."""
    ages: list[ColumnElement[bool]] = []
    if requested.younger_than is not None:
        ages.append(Job.created_at > func.now() - seconds(requested.younger_than))
    if requested.older_than is not None:
        ages.append(Job.created_at < func.now() - seconds(requested.older_than))
    return ages


def _fewest(session: Session, filters: dict[str, Any], within: list[ColumnElement[bool]]) -> str | None:
    """Return the filter that matches the fewest jobs, counted up to `MAX_CHECKED`. Returns None without a filter."""
    if len(filters) < 2:
        return next(iter(filters), None)
    matches = {}
    for column, value in filters.items():
        counted = (
            select(Job.id)
            .where(getattr(Job, column) == value, *within)
            .order_by(Job.created_at.desc(), Job.id.desc())  # the order of its index; otherwise the table is scanned
            .limit(MAX_CHECKED)
            .subquery()
        )
        matches[column] = session.execute(select(func.count()).select_from(counted)).scalar_one()
    return min(matches, key=lambda column: matches[column])


def _listed(job: Job) -> Listed:
    return Listed(
        id=job.id,
        account_id=job.account_id,
        workflow=job.workflow,
        state=State(job.state),
        error_category=job.error_category,
        error_code=job.error_code,
        attempts=job.attempts,
        created_at=job.created_at,
        finished_at=job.finished_at,
    )


def named(session: Session, name: str) -> list[uuid.UUID] | None:
    """Return the jobs with this id or reference (WB-7K3F-92QD), at most two. Returns None if `name` is neither."""
    between = id_range_of(name)
    if between is None:
        try:
            between = (uuid.UUID(name.strip()), uuid.UUID(name.strip()))
        except ValueError:
            return None
    return list(session.execute(select(Job.id).where(Job.id.between(*between)).limit(2)).scalars())
