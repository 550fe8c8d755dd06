"""Builds the report that closes a provider call, and applies an error to its lane."""

from __future__ import annotations

import uuid

from sqlalchemy.orm import Session

from tasks.ledger.calls import lanes
from tasks.ledger.calls.calls import CUT_OFF, CallReport
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.errors import Category
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.states import CallOutcome
from tasks.provider import Answer, CallProgress, ProviderError

STOPS_THE_LANE = frozenset({Category.QUOTA, Category.AUTH, Category.PERMISSION})

COOLS_THE_LANE = frozenset({
    (Category.OVERLOADED, "overloaded"),
    (Category.CONNECTION, "connect"),
    (Category.CONNECTION, "connect_timeout"),
    (Category.CONNECTION, "connection_lost"),
    (Category.CONNECTION, "proxy"),
})  # fmt: skip
"""List the failures that the next call would meet, too. A plain 500 may be caused by one document only."""


def mark_lane(session: Session, lane: str, error: ProviderError, call_id: uuid.UUID | None) -> Closed | None:
    """Stop, cool down or open the lane, by what this error says about the provider. Return the closure, or None.

    An error about the document shows that the provider answers, so it opens the lane. `call_id` None: the request was
    no call of its own but a poll.
    """
    if error.category in STOPS_THE_LANE:
        lanes.stop(session, lane, category=error.category, code=error.code)
    elif error.category is Category.RATE_LIMITED or (error.category, error.code) in COOLS_THE_LANE:
        lanes.cool(session, lane, seconds=error.retry_after_seconds, category=error.category, code=error.code)
    elif error.http_status is not None:
        lanes.record_success(session, lane, call_id, spread_seconds=LANE_SPREAD_SECONDS)
    return lanes.check(session, lane)


def report_of_answer(answer: Answer) -> CallReport:
    """Return the report of a call with this answer."""
    return CallReport(
        CallOutcome.SUCCEEDED,
        code=CUT_OFF if answer.cut_off else None,
        request_id=answer.request_id,
        response_id=answer.response_id,
        model=answer.model,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )


def report_of_error(error: ProviderError) -> CallReport:
    """Return the report of a call with this error."""
    return CallReport(
        CallOutcome.UNKNOWN if error.category is Category.UNCERTAIN else CallOutcome.FAILED,
        category=error.category,
        code=error.error_code or error.code,
        http_status=error.http_status,
        request_id=error.request_id,
    )


def cut_off(progress: CallProgress, outcome: CallOutcome) -> CallReport:
    """Return the report of a call that we ended. If it was never sent, it cannot have been billed."""
    if not progress.sent:
        return CallReport(CallOutcome.FAILED, category=Category.CONNECTION, code="never_sent")
    return CallReport(outcome, category=Category.UNCERTAIN, code="cut_off")
