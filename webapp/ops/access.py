"""Restricts everything under /ops to operators, whichever blueprint serves it and whatever the method."""

from __future__ import annotations

from flask import Flask, abort, request
from flask.typing import ResponseReturnValue
from flask_login import current_user

from webapp.http.security import unauthorized

HOME = "/ops"


def init_app(app: Flask) -> None:
    """Check every request under /ops. Call it before any other hook is set that could respond.

    The path decides, not the endpoint: a wrong method, a missing CSRF token and an unknown page get the same response
    as an existing page, so the response reveals nothing.
    """
    app.before_request(_operators_only)


def _operators_only() -> ResponseReturnValue | None:
    if request.path != HOME and not request.path.startswith(f"{HOME}/"):
        return None
    if not current_user.is_authenticated:
        return unauthorized()
    if not current_user.is_operator:
        abort(404)
    return None
