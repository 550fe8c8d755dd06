"""The text and the JSON about what a job used at the AI service."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tasks.i18n import _, ngettext
from tasks.ledger.models import ProviderCall
from tasks.pricing import Spent, Usage, usage_of
from tasks.settings import Settings
from webapp.text.numbers import number

SMALLEST = Decimal("0.0001")


def reported_usage(calls: Sequence[ProviderCall], settings: Settings) -> Usage | None:
    """Return what a job used.

    Returns None if no AI service was called and none will be: an extract has no tokens to report.
    """
    if all(call.provider == "local" for call in calls) and (calls or settings.ai_provider == "local"):
        return None
    return usage_of(calls, settings.prices)


def usage_in_words(usage: Usage) -> str:
    """Return the usage as a text such as "1,234 tokens in, 210 out, 0.0012; of that wasted 0.0004"."""
    total, wasted = usage.total, usage.wasted
    if not total.calls:
        return _("no call yet")
    if total.input_tokens is None:
        return _("not reported")
    parts = [_tokens(total) if total.cost is None else f"{_tokens(total)}, {money(total.cost)}"]
    if wasted.input_tokens is not None:
        amount = _tokens(wasted) if wasted.cost is None else money(wasted.cost)
        parts.append(_("of that wasted %(what)s", what=amount))
    if total.unreported:
        calls = number(total.unreported)
        parts.append(
            ngettext("not reported for %(num)s call", "not reported for %(num)s calls", total.unreported, num=calls)
        )
    return "; ".join(parts)


def _tokens(spent: Spent) -> str:
    into, out = spent.input_tokens or 0, number(spent.output_tokens or 0)
    return ngettext("%(num)s token in, %(out)s out", "%(num)s tokens in, %(out)s out", into, num=number(into), out=out)


def money(amount: Decimal) -> str:
    """Return an amount without a currency, which the settings do not name: two places from 1 on, four below."""
    if amount >= 1:
        return number(amount, 2, all_places=True)
    if 0 < amount < SMALLEST:
        return _("less than %(amount)s", amount=number(SMALLEST, 4))
    return number(amount, 4, all_places=True) if amount else "0"


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return the usage as JSON. Amounts are strings, because a float cannot hold them exactly."""
    return {**_spent_json(usage.total), "wasted": _spent_json(usage.wasted)}


def _spent_json(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "calls_not_reported": spent.unreported,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": None if spent.cost is None else format(spent.cost.normalize(), "f"),
    }
