"""Decides which claims are lost, as SQL conditions that the reconciler, its UPDATE and the figures share.

A claim is lost when its lease or its reservation is over, or when the session that its worker's heartbeat has in
PostgreSQL is gone and the worker is silent: a killed process's connections end at once, long before its leases do.
Three things are no loss:

- The worker reports that it holds the claim, but could not renew it, since another transaction has locked the job's
  row.
- The database was away, so nobody could renew. Nothing is taken back until one worker's heartbeats have arrived
  without a gap for long enough that every other worker had a chance to renew, too.
- A session that has ended while its worker goes on: the worker opens another one with its next heartbeat.
"""

from __future__ import annotations

from sqlalchemy import Column, ColumnElement, DateTime, Integer, exists, func, or_, select, table

from tasks.ledger.models import Job
from tasks.ledger.models.workers import Worker
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.terms import RenewalTimes

GONE_SECONDS = 60.0
"""Without any heartbeat for this long there is no worker whose chance to renew would have to be waited for."""
sessions = table("pg_stat_activity", Column("pid", Integer), Column("backend_start", DateTime(timezone=True)))


def is_lost(renewal: RenewalTimes | None) -> ColumnElement[bool]:
    """Return the SQL condition that a held job's claim is lost. `renewal` None: by its lease and reservation alone."""
    clock = func.clock_timestamp()
    lease_over = Job.lease_expires_at <= clock
    if renewal is None:
        return or_(lease_over, Job.reserved_until <= clock)
    over = or_(lease_over, _worker_is_gone(renewal)) & ~_could_not_renew(renewal)
    return or_(Job.reserved_until <= clock, over) & has_settled(renewal)


def has_settled(renewal: RenewalTimes, *, for_seconds: float = 0) -> ColumnElement[bool]:
    """Return the SQL condition that the workers of a job's queue had a chance to renew, or that there are none.

    `for_seconds` is how long ago that must have been at least.
    """
    of_queue = Worker.queue == Job.queue
    recent = Worker.seen_at > func.clock_timestamp() - seconds(GONE_SECONDS)
    steady = (Worker.seen_at > func.clock_timestamp() - seconds(renewal.gap_seconds)) & (
        Worker.steady_since <= func.clock_timestamp() - seconds(renewal.chance_seconds + for_seconds)
    )
    alive = Worker.left_at.is_(None)
    return exists().where(of_queue, alive, steady) | ~exists().where(of_queue, alive, recent)


def _holder(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(Worker.name == Job.claimed_by, *conditions)


def _worker_is_gone(renewal: RenewalTimes) -> ColumnElement[bool]:
    session_lives = (
        select(sessions.c.pid)
        .where(sessions.c.pid == Worker.backend_pid, sessions.c.backend_start == Worker.backend_started_at)
        .exists()
    )
    silent = Worker.seen_at < func.clock_timestamp() - seconds(renewal.silent_seconds)
    return _holder(Worker.backend_pid.is_not(None), silent, ~session_lives)


def _could_not_renew(renewal: RenewalTimes) -> ColumnElement[bool]:
    reports = Worker.seen_at > func.clock_timestamp() - seconds(renewal.gap_seconds)
    return _holder(reports, Job.id == func.any(Worker.unrenewed))


def is_orphan(renewal: RenewalTimes | None, grace_seconds: float) -> ColumnElement[bool]:
    """Return the SQL condition that an unfinished job is not held, or its claim is lost for longer than the grace.

    `renewal` None: by its lease and `grace_seconds` alone.
    """
    not_held = Job.lease_expires_at.is_(None)
    grace = grace_seconds if renewal is None else renewal.grace_seconds
    over = Job.lease_expires_at + seconds(grace) <= func.clock_timestamp()
    if renewal is not None:
        over &= ~_could_not_renew(renewal) & has_settled(renewal, for_seconds=grace)
    return not_held | over
