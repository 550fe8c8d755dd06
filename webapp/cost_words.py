"""The words and the JSON for what a job used at the AI service."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tasks.costs import Spent, Usage, usage_of
from tasks.ledger.models import ProviderCall
from tasks.settings import Settings
from webapp.wording import counted

SMALLEST = Decimal("0.0001")


def told_usage(calls: Sequence[ProviderCall], settings: Settings) -> Usage | None:
    """What a job used. None where no AI service was asked, nor will be: an extract has no tokens to report."""
    if all(call.provider == "local" for call in calls) and (calls or settings.ai_provider == "local"):
        return None
    return usage_of(calls, settings.prices)


def usage_in_words(usage: Usage) -> str:
    """1,234 tokens in, 210 out, 0.0012; of that wasted 0.0004."""
    total, wasted = usage.total, usage.wasted
    if not total.calls:
        return "no call yet"
    if total.input_tokens is None:
        return "not reported"
    said = _tokens(total) if total.cost is None else f"{_tokens(total)}, {money(total.cost)}"
    if wasted.input_tokens is not None:
        said += f"; of that wasted {_tokens(wasted) if wasted.cost is None else money(wasted.cost)}"
    if total.unreported:
        said += f"; not reported for {counted(total.unreported, 'call')}"
    return said


def _tokens(spent: Spent) -> str:
    return f"{counted(spent.input_tokens or 0, 'token')} in, {spent.output_tokens or 0:,} out"


def money(amount: Decimal) -> str:
    """An amount without a currency, which nobody told us: cents for whole units, four places below."""
    if amount >= 1:
        return f"{amount:,.2f}"
    if 0 < amount < SMALLEST:
        return f"less than {SMALLEST}"
    return f"{amount:.4f}" if amount else "0"


def usage_json(usage: Usage) -> dict[str, Any]:
    """The same for programs. Amounts are text, since a float is no amount."""
    return {**_spent_json(usage.total), "wasted": _spent_json(usage.wasted)}


def _spent_json(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "calls_not_reported": spent.unreported,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": None if spent.cost is None else format(spent.cost.normalize(), "f"),
    }
