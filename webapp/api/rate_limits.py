"""Limits how often API clients may ask. Requests count per account, so that more tokens do not mean more requests.

The headers are RateLimit and RateLimit-Policy as structured fields, after revision 10 of
https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
"""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import dataclass

from flask import Response
from limits import RateLimitItemPerMinute

from tasks.ledger.accounts import limits
from webapp.extensions import limiter
from webapp.services import services

POLICY, JOBS_POLICY = "requests", "jobs"
WINDOW_SECONDS = 60


@dataclass(frozen=True)
class Allowance:
    """Represents what is left of the requests of this minute. `allowed` is False if this request was too many."""

    allowed: bool
    maximum: int
    left: int
    seconds_to_reset: int


def count(account_id: uuid.UUID) -> Allowance | None:
    """Count a request of the account. Returns None if Redis is unreachable: that is no reason to refuse work."""
    limit = RateLimitItemPerMinute(services().settings.api_requests_per_minute)
    key = ("api", account_id.hex)
    try:
        allowed = limiter.limiter.hit(limit, *key)
        reset_at, left = limiter.limiter.get_window_stats(limit, *key)
    except limiter.storage.base_exceptions:
        return None
    return Allowance(allowed, limit.amount, left, max(1, min(WINDOW_SECONDS, int(reset_at - time.time()) + 1)))


def add_headers(response: Response, allowance: Allowance, of_day: limits.Allowance | None) -> None:
    """Add headers that tell the client what is left and when to retry.

    `of_day` is the daily job limit, if it was looked up. While documents may be handed in, there is no single moment at
    which more are allowed, so none is given.
    """
    policies = [f'"{POLICY}";q={allowance.maximum};w={WINDOW_SECONDS}']
    left = [f'"{POLICY}";r={allowance.left};t={allowance.seconds_to_reset}']
    if of_day is not None and of_day.maximum is not None:
        policies.append(f'"{JOBS_POLICY}";q={of_day.maximum};w={limits.DAY_SECONDS}')
        wait = "" if of_day.until is None else f";t={max(1, math.ceil((of_day.until - of_day.now).total_seconds()))}"
        left.append(f'"{JOBS_POLICY}";r={of_day.left}{wait}')
    response.headers["RateLimit-Policy"] = ", ".join(policies)
    response.headers["RateLimit"] = ", ".join(left)
    if not allowance.allowed:
        response.headers["Retry-After"] = str(allowance.seconds_to_reset)
