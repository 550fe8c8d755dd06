"""Error responses for people and API clients. They contain no traceback and no message of a library."""

from __future__ import annotations

import math
import time
import uuid
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import structlog
from flask import Flask, Response, current_app, g, json, render_template, request, session
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm.exc import ObjectDeletedError
from werkzeug.exceptions import BadHost, HTTPException
from werkzeug.routing import RequestRedirect

from tasks.database import error_name, is_out_of_reach
from tasks.i18n import _, lazy
from tasks.observability import sentry
from tasks.observability.logs import log_fields
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http.htmx import is_htmx
from webapp.http.security import is_api, unauthorized
from webapp.models import Account

log = structlog.get_logger()

PAGES: dict[int, tuple[str, str]] = {
    400: (lazy("This request was not understood"), lazy("Go back, reload the page, and try again.")),
    403: (lazy("You don’t have access to this page"), lazy("Your account isn’t allowed to do this.")),
    404: (
        lazy("There is nothing here"),
        lazy("The address may be mistyped, the page may be gone, or it belongs to another account."),
    ),
    405: (lazy("This is not possible here"), lazy("Go back and use the buttons on the page.")),
    410: (
        lazy("This has been deleted"),
        lazy("This site keeps documents for a limited time. To get the result again, submit the document again."),
    ),
    413: (lazy("Too large"), lazy("Submit something smaller.")),
    415: (lazy("Unsupported format"), lazy("Use the forms on the pages, or JSON for the API.")),
    422: (lazy("Something is missing or wrong"), lazy("Go back and check your entries.")),
    429: (lazy("Too many requests"), lazy("Wait a moment, then try again.")),
    500: (
        lazy("Something went wrong on our side"),
        lazy("It was noted. What was accepted before is kept. Try again in a minute."),
    ),
    503: (
        lazy("The site cannot reach its database right now"),
        lazy("What was accepted before is kept. Wait a minute and reload the page."),
    ),
}


def init_app(app: Flask) -> None:
    """Register the handlers: errors look like the site's pages, and under /api/ they are problem documents."""
    app.after_request(_on_this_site)
    app.register_error_handler(CSRFError, form_too_old)
    app.register_error_handler(RateLimitExceeded, too_often)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(DBAPIError, database_error)
    app.register_error_handler(IntegrityError, account_may_be_gone)
    app.register_error_handler(ObjectDeletedError, account_may_be_gone)
    app.register_error_handler(PoolTimeout, database_error)
    app.register_error_handler(Exception, unforeseen)


def problem(status: int, title: str, detail: str | None = None, **more: Any) -> Response:
    """Return an error for an API client (RFC 9457)."""
    about = {"detail": str(detail)} if detail else {}
    body = {"type": "about:blank", "title": str(title), "status": status, **about, **more}
    return Response(json.dumps(body), status=status, content_type="application/problem+json")


def token_needed() -> Response:
    """Return the response to an API client without a valid token."""
    refused = problem(401, "A valid token is needed", "Send the header Authorization: Bearer <token>.")
    refused.headers["WWW-Authenticate"] = 'Bearer realm="Waybill"'
    return refused


def error_page(status: int, title: str | None = None, text: str | None = None) -> tuple[str, int]:
    """Return an error page and its status."""
    known = PAGES.get(status, PAGES[500 if status >= 500 else 400])
    return render_template("http/error.html", title=title or known[0], text=text or known[1], status=status), status


def not_found() -> tuple[str, int]:
    """Return the same page for whatever is missing, belongs to others, or is mistyped."""
    return error_page(404)


def http_error(error: HTTPException) -> ResponseReturnValue:
    """Handle an HTTP error. Redirects are passed on unchanged."""
    status = error.code or 500
    if status < 400:
        return error
    if isinstance(error, BadHost):  # its host is invalid, so a page could not even have links
        return Response(f"{PAGES[400][0]}\n", 400, content_type="text/plain; charset=utf-8")
    headers = {
        name: value for name, value in error.get_headers() if name in ("Allow", "Retry-After", "WWW-Authenticate")
    }
    if is_api():
        response = problem(status, PAGES.get(status, (error.name, ""))[0])
        response.headers.update(headers)
        return response
    return (*error_page(status), headers)


def _on_this_site(response: Response) -> Response:
    """Make the router's redirects relative: they name the request's Host header, which could be any host."""
    wrong = request.routing_exception
    if isinstance(wrong, RequestRedirect) and response.location == wrong.new_url:
        to = urlsplit(wrong.new_url)
        response.location = urlunsplit(("", "", to.path, to.query, ""))
        response.data = b""
    return response


def form_too_old(error: CSRFError) -> ResponseReturnValue:
    """Handle a CSRF token that does not match the session. htmx is told to reload its page."""
    if is_htmx():
        return "", 400, {"HX-Refresh": "true"}
    return error_page(400, _("This form is too old"), _("Go back, reload the page, and press the button again."))


def too_often(error: RateLimitExceeded) -> ResponseReturnValue:
    """Handle a rate limit that is reached."""
    headers = {"Retry-After": str(seconds_until_allowed())}
    if is_api():
        response = problem(429, PAGES[429][0], "Retry-After says in how many seconds.")
        response.headers.update(headers)
        return response
    return (*error_page(429), headers)


def seconds_until_allowed() -> int:
    """Return the seconds until the limit of this request allows the next one."""
    limit = limiter.current_limit
    return max(1, math.ceil(limit.reset_at - time.time())) if limit else 60


def database_error(error: Exception) -> ResponseReturnValue:
    """Handle an unreachable database; any other database error is unexpected."""
    if not is_out_of_reach(error):
        return unforeseen(error)
    log.warning("request.database_out_of_reach", endpoint=request.endpoint, error=error_name(error))
    return broken(503)


def account_may_be_gone(error: Exception) -> ResponseReturnValue:
    """Handle an error whose cause may be that the account was deleted after the request had begun."""
    asking = g.get("account_id") if is_api() else session.get("_user_id")
    if asking is None or _is_there(uuid.UUID(str(asking))):
        return unforeseen(error)
    log.info("request.account_gone", endpoint=request.endpoint)
    if is_api():
        return token_needed()
    session.clear()
    g.nobody = True
    g.pop("_login_user", None)  # its row is gone: the log of this request could not even read its id
    return unauthorized()


def _is_there(account_id: uuid.UUID) -> bool:
    with transaction() as database:
        return database.execute(select(Account.id).where(Account.id == account_id)).scalar_one_or_none() is not None


def unforeseen(error: Exception) -> ResponseReturnValue:
    """Handle a bug. Logs where it came from, never its message, which may quote a document."""
    if current_app.testing and not is_out_of_reach(error):
        raise error
    log.error("request.failed", endpoint=request.endpoint, **log_fields(error))
    sentry.report(error, "request.failed", endpoint=request.endpoint, request_id=g.get("request_id"))
    return broken(500)


def broken(status: int) -> ResponseReturnValue:
    """Return an error response that depends on nothing but this process."""
    g.nobody = True
    headers = {"Retry-After": "30"} if status == 503 else {}
    if is_api():
        response = problem(status, PAGES[status][0], PAGES[status][1])
        response.headers.update(headers)
        return response
    return (*error_page(status), headers)
