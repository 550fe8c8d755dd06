"""Health checks: liveness of this process, and readiness of the whole site."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, json
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import takes_writes
from tasks.ledger import schema
from tasks.ledger.delivery import gate
from tasks.ledger.reports import job_views
from tasks.queue.redis_client import QueueUnreachable
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.jobs.worker_presence import no_worker_seen
from webapp.services import services

health = Blueprint("health", __name__)
limiter.exempt(health)


@health.get("/healthz")
def healthz() -> ResponseReturnValue:
    """Report that this process responds. A host may restart it if it does not; nothing else is checked."""
    return Response("ok\n", content_type="text/plain; charset=utf-8")


@health.get("/readyz")
def readyz() -> ResponseReturnValue:
    """Report whether everything a job needs is available. A 503 names what is missing, without figures."""
    missing = [*_missing_in_database(), *_missing_in_redis()]
    body = {"ready": not missing, "missing": missing}
    return Response(json.dumps(body), status=503 if missing else 200, content_type="application/json")


def _missing_in_database() -> list[str]:
    settings = services().settings
    checks: dict[str, Callable[[Session], bool]] = {
        "database": takes_writes,
        "migrations": lambda session: not schema.is_behind(job_views.schema_version(session)),
        # While an operator has paused the work, its workers may be away; people can still hand in.
        "worker": lambda session: gate.load(session, settings.queue_name).is_paused or not no_worker_seen(session),
        "orphans": lambda session: job_views.orphans(session, renewal=settings.renewal, queue=settings.queue_name) == 0,
    }
    missing = []
    try:
        with transaction() as session:
            for name, holds in checks.items():
                if not holds(session):
                    missing.append(name)
                    if name == "migrations":
                        break  # the tables may not be as the other checks need them
    except SQLAlchemyError:
        return ["database"]
    return missing


def _missing_in_redis() -> list[str]:
    try:
        services().queue.require_usable()
    except QueueUnreachable:
        return ["redis"]
    return []
