"""The words and the JSON for what a job used at the AI service."""

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


def told_usage(calls: Sequence[ProviderCall], settings: Settings) -> Usage | None:
    """What a job used. None where no AI service was asked, nor will be: an extract has no tokens to report."""
    if all(call.provider == "local" for call in calls) and (calls or settings.ai_provider == "local"):
        return None
    return usage_of(calls, settings.prices)


def usage_in_words(usage: Usage) -> str:
    """1,234 tokens in, 210 out, 0.0012; of that wasted 0.0004."""
    total, wasted = usage.total, usage.wasted
    if not total.calls:
        return _("no call yet")
    if total.input_tokens is None:
        return _("not reported")
    said = [_tokens(total) if total.cost is None else f"{_tokens(total)}, {money(total.cost)}"]
    if wasted.input_tokens is not None:
        what = _tokens(wasted) if wasted.cost is None else money(wasted.cost)
        said.append(_("of that wasted %(what)s", what=what))
    if total.unreported:
        calls = number(total.unreported)
        said.append(
            ngettext("not reported for %(num)s call", "not reported for %(num)s calls", total.unreported, num=calls)
        )
    return "; ".join(said)


def _tokens(spent: Spent) -> str:
    into, out = spent.input_tokens or 0, number(spent.output_tokens or 0)
    return ngettext("%(num)s token in, %(out)s out", "%(num)s tokens in, %(out)s out", into, num=number(into), out=out)


def money(amount: Decimal) -> str:
    """An amount without a currency, which nobody told us: cents for whole units, four places below."""
    if amount >= 1:
        return number(amount, 2, all_places=True)
    if 0 < amount < SMALLEST:
        return _("less than %(amount)s", amount=number(SMALLEST, 4))
    return number(amount, 4, all_places=True) if amount else "0"


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
