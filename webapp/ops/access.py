"""Everything under /ops is for operators, whichever blueprint it comes from and whatever is asked of it."""

from __future__ import annotations

from flask import Flask, abort, request
from flask.typing import ResponseReturnValue
from flask_login import current_user

from webapp.http.security import unauthorized

HOME = "/ops"


def init_app(app: Flask) -> None:
    """Stand before the addresses under /ops. To be called before any other hook is set that could answer.

    The path decides, not the endpoint: a wrong method, a missing proof of origin and an address that does not exist
    get the same answer as a page that does, so nothing can be learned from it.
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
