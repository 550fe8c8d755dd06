"""Serves rq-dashboard at /ops/rq/ if RQ_DASHBOARD_ENABLED is set: a read-only view of the queue.

The package was made to run alone. Here it uses our connections instead of a new one for each request, reads JSON
instead of unpickling what is in Redis, and only safe methods pass. `webapp.ops.access` admits only operators.
"""

from __future__ import annotations

import functools

from flask import Blueprint, Flask, abort, request
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from tasks.queue import NoSuchMessage, read_messages_as_json
from tasks.queue.redis_client import QueueUnreachable
from webapp.http.errors import error_page, not_found
from webapp.services import Services

PREFIX = "/ops/rq"
# Its pages use inline scripts and styles, and compile templates in the browser.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
NOT_FROM_HERE = "To run failed work again, use Replay on the job's page under Operation. It keeps the job's identity."
AWAY = "The queue cannot be reached. What was accepted is kept in the database. Try again in a minute."
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def init_app(app: Flask, shared: Services) -> None:
    """Add the dashboard to this app, over the app's own Redis connections."""
    app.config.update(
        RQ_DASHBOARD_REDIS_URL=("the Redis of this site",),  # shown on the page: the real URL is private
        RQ_DASHBOARD_DISABLE_DELETE=True,
    )
    app.redis_conn = shared.queue.connection  # type: ignore[attr-defined]
    app.before_request(_only_look)
    app.register_blueprint(_blueprint(), url_prefix=PREFIX)


@functools.cache
def _blueprint() -> Blueprint:
    """Return the package's blueprint, made safe once per process: it is one object for every app."""
    from rq_dashboard import web  # imported late: most sites do not use it

    read_messages_as_json()
    blueprint: Blueprint = web.blueprint
    web.config.serializer = "json"
    # It would replace our client by a new one, with its own connection, on every request.
    blueprint.before_request_funcs[None].remove(web.push_rq_connection)
    blueprint.after_request(_allow_its_scripts)
    blueprint.register_error_handler(NoSuchMessage, _is_not_there)
    blueprint.register_error_handler(QueueUnreachable, _is_away)
    for kind in (ValueError, LookupError, ArithmeticError, UnboundLocalError):
        blueprint.register_error_handler(kind, _is_not_there)  # these are its reactions to unknown URLs
    return blueprint


def _only_look() -> ResponseReturnValue | None:
    if not request.path.startswith(f"{PREFIX}/"):
        return None
    if "/requeue" in request.path:  # a GET changes things there, bypassing the job's states
        return error_page(403, "Work is not run again from here", NOT_FROM_HERE)
    if request.method not in SAFE:
        abort(405)
    return None


def _allow_its_scripts(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


def _is_not_there(_: Exception) -> ResponseReturnValue:
    return not_found()


def _is_away(_: Exception) -> ResponseReturnValue:
    return error_page(503, "The queue cannot be reached right now", AWAY)
