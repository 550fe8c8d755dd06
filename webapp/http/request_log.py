"""Logs one line per request: route, account, status and duration.

It logs the route, never the URL: paths and queries contain user input. Everything else that is logged during a request
carries its id.
"""

from __future__ import annotations

import time
import uuid

import structlog
from flask import Flask, Response, g, request
from sqlalchemy import inspect
from structlog.contextvars import bind_contextvars, clear_contextvars

from tasks.observability import tracing

log = structlog.get_logger()

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LOGGED_IF_FAILED = frozenset({"static", "health.healthz"})
"""Endpoints that are logged only if they fail."""


def init_app(app: Flask) -> None:
    """Log every request. Call it before any other hook is set, so that refused requests are logged, too."""
    app.before_request(_begin)
    app.after_request(_note)
    app.teardown_request(_end)


def _begin() -> None:
    clear_contextvars()
    g.began = time.monotonic()
    g.request_id = _id_given() or uuid.uuid4().hex
    bind_contextvars(request_id=g.request_id)
    job_id = (request.view_args or {}).get("job_id")
    if isinstance(job_id, uuid.UUID):
        bind_contextvars(job=job_id.hex)
    g.span = None
    if request.endpoint not in LOGGED_IF_FAILED:
        g.span = tracing.begin("web.request", method=_method(), route=_route(), request_id=g.request_id)


def _id_given() -> str | None:
    """Return the id that the router in front assigned, if it is a UUID: other text could be anything."""
    try:
        return uuid.UUID(request.headers.get("X-Request-ID", "")).hex
    except ValueError:
        return None


def _note(response: Response) -> Response:
    g.status = response.status_code
    return response


def _end(_: BaseException | None) -> None:
    status = g.get("status", 500)
    if "began" not in g:
        return
    if request.endpoint not in LOGGED_IF_FAILED or status >= 500:
        log.info(
            "request.ended",
            method=_method(),
            route=_route(),
            status=status,
            milliseconds=round((time.monotonic() - g.began) * 1000),
            account=_account(),
        )
    tracing.end(g.span, status=status, account=_account())
    clear_contextvars()


def _method() -> str:
    return request.method if request.method in METHODS else "other"


def _route() -> str | None:
    """Return the route's pattern; None if no route matches."""
    return request.url_rule.rule if request.url_rule is not None else None


def _account() -> str | None:
    """Return the account, as far as the request itself has looked it up."""
    if g.get("account_id") is not None:
        return str(g.account_id.hex)
    account = g.get("_login_user")
    if account is None or not account.is_authenticated:
        return None
    known = inspect(account).identity  # the row may be deleted by now, and must not be loaded again
    return known[0].hex if known else None
