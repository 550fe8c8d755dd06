"""Computes the cost of calls to the AI service from tokens and prices. Pure; an unknown cost is None, never 0."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from tasks.ledger.models import ProviderCall
from tasks.ledger.states import CallOutcome
from tasks.settings.prices import Price, Prices

MILLION = Decimal(1_000_000)
SNAPSHOT = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
"""Matches the suffix of a dated edition of a model, which has the same price as the model."""


def price_of(model: str, prices: Prices) -> Price | None:
    """Return the price of a model, or of the model that it is a dated edition of; None if unknown."""
    return prices.get(model) or prices.get(SNAPSHOT.sub("", model))


def cost_of(call: ProviderCall, prices: Prices) -> Decimal | None:
    """Return the cost of a call; None if its tokens or its price are not known."""
    if call.input_tokens is None or call.output_tokens is None:
        return None
    return cost_of_tokens(call.model, call.input_tokens, call.output_tokens, prices)


def cost_of_tokens(model: str, input_tokens: int, output_tokens: int, prices: Prices) -> Decimal | None:
    """Return the cost of these tokens of a model; None if the model has no price."""
    price = price_of(model, prices)
    return None if price is None else (input_tokens * price.input + output_tokens * price.output) / MILLION


@dataclass(frozen=True)
class Spent:
    """Holds the tokens and cost of some calls.

    Tokens are None if no call reported any. `cost` is None too then, and if a call that reported tokens has no price.
    `unreported` counts the calls that may have been billed but reported no tokens.
    """

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost: Decimal | None
    unreported: int


@dataclass(frozen=True)
class Usage:
    """Holds the usage of a job: its total, and the part whose answers were not kept."""

    total: Spent
    wasted: Spent


def usage_of(calls: Iterable[ProviderCall], prices: Prices) -> Usage:
    """Return the usage of a job, from its calls, oldest first.

    In each step the last call with an answer was useful. Calls that were repeated, and calls that were sent and got no
    answer, are wasted. A call in flight, and a call that was refused without tokens, is neither.
    """
    counted = [call for call in calls if _may_cost(call)]
    useful = {call.step: call.id for call in counted if call.outcome == CallOutcome.SUCCEEDED}
    wasted = [call for call in counted if useful.get(call.step) != call.id]
    return Usage(_spent(counted, prices), _spent(wasted, prices))


def _may_cost(call: ProviderCall) -> bool:
    if call.outcome == CallOutcome.FAILED:
        return call.input_tokens is not None or call.output_tokens is not None
    return call.outcome != CallOutcome.OPEN


def _spent(calls: list[ProviderCall], prices: Prices) -> Spent:
    reported = [call for call in calls if call.input_tokens is not None or call.output_tokens is not None]
    costs = [cost_of(call, prices) for call in reported]
    known = [cost for cost in costs if cost is not None]
    return Spent(
        calls=len(calls),
        input_tokens=sum(call.input_tokens or 0 for call in reported) if reported else None,
        output_tokens=sum(call.output_tokens or 0 for call in reported) if reported else None,
        cost=sum(known, Decimal(0)) if reported and len(known) == len(costs) else None,
        unreported=len(calls) - len(reported),
    )
