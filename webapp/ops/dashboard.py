"""Prepares the figures of the operators' pages: alarms first, then charts, tokens and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy.orm import Session

from tasks.ledger.delivery.fair_order import SEEN_WITHIN_SECONDS
from tasks.ledger.reports import current
from tasks.ledger.reports.current import Now
from tasks.ledger.reports.last_day import LastDay, Spread
from tasks.ledger.states import LaneState, State
from tasks.pricing import cost_of_tokens
from tasks.settings import Settings
from webapp.jobs.worker_presence import LONGER_THAN_USUAL_SECONDS
from webapp.ops.charts import Chart, chart

SECONDS = "s"


def now_of(session: Session, settings: Settings) -> Now:
    """Return the current figures of this site."""
    return current.now(
        session,
        queue=settings.queue_name,
        lane=settings.lane,
        alive_seconds=SEEN_WITHIN_SECONDS,
        renewal=settings.renewal,
    )


def alarms_of(now: Now) -> list[str]:
    """Return what is wrong, the worst first, as keys; the page has the sentences.

    While an operator has paused the work, nothing is late; while it is limited, deliveries are held back on purpose.
    """
    late = now.longest_wait_seconds is not None and now.longest_wait_seconds > LONGER_THAN_USUAL_SECONDS
    raised = {
        "no_worker": now.alive == 0 and not now.gate.is_paused,
        "orphans": now.orphans > 0,
        "cooling_lane": any(lane.is_cooling_long for lane in now.lanes),
        "stopped_lane": any(lane.state is LaneState.STOPPED for lane in now.lanes),
        "overdue": now.overdue > 0 and now.gate.mode == "open",
        "late": late and now.alive > 0 and not now.gate.is_paused,
    }
    return [name for name, holds in raised.items() if holds]


@dataclass(frozen=True)
class Tokens:
    """Token usage. `cost` covers the models that have a price, None if none has; `unpriced` names the others."""

    calls: int
    unknown: int
    unreported: int
    input: int
    output: int
    cost: Decimal | None
    unpriced: Sequence[str]


def tokens_of(day: LastDay, settings: Settings) -> Tokens:
    """Return the tokens of the day, and their cost as far as prices are set."""
    costs = {
        use.model: cost_of_tokens(use.model, use.input_tokens, use.output_tokens, settings.prices)
        for use in day.models
        if use.input_tokens or use.output_tokens
    }
    known = [cost for cost in costs.values() if cost is not None]
    return Tokens(
        calls=sum(use.calls for use in day.models),
        unknown=sum(use.unknown for use in day.models),
        unreported=sum(use.unreported for use in day.models),
        input=sum(use.input_tokens for use in day.models),
        output=sum(use.output_tokens for use in day.models),
        cost=sum(known, Decimal(0)) if known else None,
        unpriced=[model for model, cost in costs.items() if cost is None],
    )


def charts_of(day: LastDay) -> list[Chart]:
    """Return the charts of the day, hour by hour."""
    hours = day.hours
    return [
        chart("Accepted", {"accepted": [hour.accepted for hour in hours]}, unit="jobs"),
        chart(
            "Ended",
            {
                word: [hour.ended[state] for hour in hours]
                for word, state in (
                    ("saved", State.SUCCEEDED),
                    ("failed", State.FAILED),
                    ("cancelled", State.CANCELLED),
                )
            },
            unit="jobs",
        ),
        _spread("Waiting for a worker", [hour.waiting for hour in hours]),
        _spread("Being worked on", [hour.working for hour in hours]),
        chart(
            "Tokens",
            {"in": [hour.input_tokens for hour in hours], "out": [hour.output_tokens for hour in hours]},
            unit="tokens",
        ),
        chart(
            "Setbacks",
            {
                "retries": [hour.retries for hour in hours],
                "interruptions": [hour.interruptions for hour in hours],
            },
        ),
    ]


def _spread(title: str, spreads: Sequence[Spread | None]) -> Chart:
    return chart(
        title,
        {
            "p95": [None if spread is None else spread.p95 for spread in spreads],
            "p50": [None if spread is None else spread.p50 for spread in spreads],
        },
        unit=SECONDS,
        stacked=False,
    )
