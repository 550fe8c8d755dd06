"""One line of log a request: what was asked of which page, by which account, and how it ended.

The route, never the address: paths and queries hold what people typed. Whatever else is logged while a request is
answered carries its id.
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
UNHEARD = frozenset({"static", "health.healthz"})
"""Answered without being logged, unless it went wrong."""


def init_app(app: Flask) -> None:
    """Log every request. To be called before any other hook is set, so that refused ones are logged too."""
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
    if request.endpoint not in UNHEARD:
        g.span = tracing.begin("web.request", method=_method(), route=_route(), request_id=g.request_id)


def _id_given() -> str | None:
    """The id that the router in front gave the request, where it is one: a text could be anything."""
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
    if request.endpoint not in UNHEARD or status >= 500:
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
    """The pattern of the address; None for one that is no page of ours."""
    return request.url_rule.rule if request.url_rule is not None else None


def _account() -> str | None:
    """Whoever asked, as far as the request itself had to find out."""
    if g.get("account_id") is not None:
        return str(g.account_id.hex)
    account = g.get("_login_user")
    if account is None or not account.is_authenticated:
        return None
    known = inspect(account).identity  # the row itself may have been deleted meanwhile, and is not asked for again
    return known[0].hex if known else None
