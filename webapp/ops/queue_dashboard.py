"""rq-dashboard at /ops/rq/, where RQ_DASHBOARD_ENABLED says so: a look into the queue, and nothing but a look.

The package was made to stand alone. Here it gets our connections instead of one of its own for each request, reads JSON
instead of unpickling what lies in Redis, and only safe methods pass. `webapp.ops.access` lets nobody but operators in.
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
# Its pages hold inline scripts and styles, and its templates are compiled in the browser.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
NOT_FROM_HERE = "To run failed work again, use Replay on the job's page under Operation. It keeps the job's identity."
AWAY = "The queue cannot be reached. What was accepted is kept in the database. Try again in a minute."
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def init_app(app: Flask, parts: Services) -> None:
    """Show the dashboard in this app, over the app's own way to Redis."""
    app.config.update(
        RQ_DASHBOARD_REDIS_URL=("the Redis of this site",),  # only shown: its address is nobody's business
        RQ_DASHBOARD_DISABLE_DELETE=True,
    )
    app.redis_conn = parts.queue.connection  # type: ignore[attr-defined]
    app.before_request(_only_look)
    app.register_blueprint(_blueprint(), url_prefix=PREFIX)


@functools.cache
def _blueprint() -> Blueprint:
    """The package's blueprint, made safe once a process: it is one object for every app."""
    from rq_dashboard import web  # imported late: most sites do without

    read_messages_as_json()
    blueprint: Blueprint = web.blueprint
    web.config.serializer = "json"
    # It would put a new client, with a connection of its own, in the place of ours on every request.
    blueprint.before_request_funcs[None].remove(web.push_rq_connection)
    blueprint.after_request(_allow_its_scripts)
    blueprint.register_error_handler(NoSuchMessage, _is_not_there)
    blueprint.register_error_handler(QueueUnreachable, _is_away)
    for kind in (ValueError, LookupError, ArithmeticError, UnboundLocalError):
        blueprint.register_error_handler(kind, _is_not_there)  # how it takes addresses that are none of its own
    return blueprint


def _only_look() -> ResponseReturnValue | None:
    if not request.path.startswith(f"{PREFIX}/"):
        return None
    if "/requeue" in request.path:  # GET changes things there, past the job's own states
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
