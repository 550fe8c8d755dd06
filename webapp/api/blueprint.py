"""The blueprint of the API: authentication, rate limits, and error responses."""

from __future__ import annotations

from types import ModuleType

from flask import Blueprint, Response, g, request
from flask.typing import ResponseReturnValue

from tasks.ledger.accounts.limits import Limit
from webapp.api import rate_limits
from webapp.api.requests import Problem
from webapp.auth import api_tokens
from webapp.extensions import limiter
from webapp.http.errors import PAGES, problem, token_needed
from webapp.http.rejection import NotAccepted
from webapp.limits import OverLimit, usage_of_account

api = Blueprint("api", __name__, url_prefix="/api/v1")
# Count only rejected tokens: this slows down guessing, not work.
limiter.limit("60 per minute", deduct_when=lambda response: response.status_code == 401)(api)
OVER_LIMIT = "A limit of this account is reached"


def with_views(*modules: ModuleType) -> Blueprint:
    """Return the blueprint. Importing the given modules has registered their routes."""
    assert modules
    return api


@api.errorhandler(Problem)
def say_problem(error: Problem) -> ResponseReturnValue:
    return error.response


@api.errorhandler(NotAccepted)
def say_not_accepted(refused: NotAccepted) -> ResponseReturnValue:
    return problem(
        refused.status, "The document was not accepted", refused.message, code=refused.code, field=refused.field
    )


@api.errorhandler(OverLimit)
def say_over_limit(refused: OverLimit) -> ResponseReturnValue:
    g.of_day = usage_of_account(g.account_id)[Limit.JOBS_PER_DAY]
    response = problem(429, OVER_LIMIT, refused.message, code=refused.code, until=refused.facts["until"])
    response.headers.update(refused.headers)
    return response


@api.before_request
def authenticate() -> ResponseReturnValue | None:
    """Find the account of the token. Cookies are ignored here, so pages of other sites cannot use them."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        try:
            g.account_id = api_tokens.owner_of(token.strip())
        except api_tokens.AccountDisabled:
            return problem(403, "The account is disabled", "Ask the operator of this site.", code="account_disabled")
        if g.account_id is not None:
            return _within_limits()
    return token_needed()


def _within_limits() -> ResponseReturnValue | None:
    g.allowance = rate_limits.count(g.account_id)
    if g.allowance is None or g.allowance.allowed:
        return None
    return problem(429, PAGES[429][0], "Retry-After says in how many seconds.")


@api.after_request
def tell_limits(response: Response) -> Response:
    """Add what is left of the account's requests to every response to an authenticated client."""
    allowance = g.get("allowance")
    if allowance is not None:
        rate_limits.add_headers(response, allowance, g.get("of_day"))
    return response
