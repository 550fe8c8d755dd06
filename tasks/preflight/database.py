"""Checks the database: whether it answers, its limits, a pooler in front of it, and the state of the rows."""

from __future__ import annotations

import time

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Database, takes_writes
from tasks.ledger import schema
from tasks.ledger.calls import lanes, responses
from tasks.ledger.reports import job_views
from tasks.maintenance.response_cleanup import GIVE_UP_WITHDRAWING_SECONDS
from tasks.preflight.pooler import is_behind_transaction_pooler
from tasks.preflight.report_line import Finding, Level, clock, fits, judge
from tasks.settings import Settings

UPGRADE = "Run: flask --app wsgi db upgrade"
LIMITS = text("""
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
           (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
           (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
           (SELECT count(*) FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND application_name NOT LIKE 'waybill%'),
           (SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name NOT LIKE 'waybill%')
""")


def findings(settings: Settings) -> list[Finding]:
    """Return a finding for each question; only the first if the database does not answer."""
    database = Database(settings, "waybill-preflight")
    try:
        with database.transaction() as session:
            version = job_views.schema_version(session)
            found = [_answers(session), _schema(version), _clock(session)]
            if not schema.is_behind(version):
                workers = job_views.live_workers(
                    session, queue=settings.queue_name, seen_within_seconds=settings.lease_seconds * 2
                )
                found += [_connections(session, settings, workers), *_rows(session, settings, workers)]
        return [*found, _pooler(settings)]
    except SQLAlchemyError as error:
        return [Finding(Level.FAIL, "database", f"no answer ({type(error).__name__})", "Check DATABASE_URL")]
    finally:
        database.close()


def _answers(session: Session) -> Finding:
    writable = takes_writes(session)
    measured = "answers" if writable else "answers, and takes no writes"
    remedy = "DATABASE_URL names a replica, or default_transaction_read_only is on. Name the primary"
    return Finding(judge(writable, Level.FAIL), "database", measured, remedy)


def _schema(version: str | None) -> Finding:
    newest = schema.MIGRATIONS[-1]
    if version == newest:
        return Finding(Level.OK, "schema", f"{version}, the newest that this code knows")
    if schema.is_behind(version):
        return Finding(Level.FAIL, "schema", f"{version or 'no tables'}, and this code needs {newest}", UPGRADE)
    return Finding(
        Level.WARN, "schema", f"{version}, newer than {newest}", "That is as it should be after a rollback only"
    )


def _clock(session: Session) -> Finding:
    asked_at = time.time()
    server_time = float(session.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    answered_at = time.time()
    unsure = (answered_at - asked_at) / 2
    return clock("clock of the database", server_time - (asked_at + unsure), unsure)


def _connections(session: Session, settings: Settings, workers: int) -> Finding:
    server, here, role, others, others_here = session.execute(LIMITS).one()
    own = [limit for limit in (here, role) if limit >= 0]
    workers = max(1, workers)
    processes = settings.web_concurrency + workers
    max_connections, used = min(
        [(server, others), *((limit, others_here) for limit in own)], key=lambda pair: pair[0] - pair[1]
    )
    what = f"{processes} processes of {settings.database_pool_size}, and the heartbeat of each worker"
    needed = processes * settings.database_pool_size + workers
    return fits("connections to the database", used=used, most=max_connections, needed=needed, what=what)


def _rows(session: Session, settings: Settings, workers: int) -> list[Finding]:
    orphans = job_views.orphans(session, renewal=settings.renewal)
    closed = lanes.check(session, settings.lane)
    lane = "open" if closed is None else str(closed.state)
    return [
        Finding(
            judge(orphans == 0, Level.FAIL), "orphans", str(orphans), "Start a worker; if the number stays, report it"
        ),
        Finding(judge(workers > 0, Level.FAIL), "live workers", str(workers), "Start one: python -m tasks worker"),
        Finding(
            judge(lane != "stopped", Level.FAIL),
            f"lane {settings.lane}",
            lane,
            "When the cause is gone: python -m tasks ops resume",
        ),
        _at_the_provider(session, settings),
    ]


def _at_the_provider(session: Session, settings: Settings) -> Finding:
    """Find out whether, in background mode, responses of finished jobs keep the lane full."""
    taken, overdue = responses.response_counts(
        session, lane=settings.lane, overdue_seconds=GIVE_UP_WITHDRAWING_SECONDS + settings.sweep_seconds
    )
    measured = f"{taken} of {settings.provider_concurrency} places taken"
    return Finding(
        judge(overdue == 0, Level.FAIL),
        "at the provider",
        measured + (f", {overdue} by jobs that are over" if overdue else ""),
        "They keep others waiting. Start a worker, which withdraws them",
    )


def _pooler(settings: Settings) -> Finding:
    found, is_declared = is_behind_transaction_pooler(settings), settings.database_pooler == "transaction"
    measured = "a setting of a session was lost between two transactions" if found else "sessions are kept"
    return Finding(
        judge(is_declared or not found, Level.WARN),
        "transaction pooler",
        f"{measured}{'; DATABASE_POOLER says so too' if found and is_declared else ''}",
        "It works. If it is meant, set DATABASE_POOLER=transaction; let migrations go to the database directly",
    )
