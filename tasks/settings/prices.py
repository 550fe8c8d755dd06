"""Prices of models, as MODEL_PRICES has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MOST = Decimal(1_000_000)
"""More than this for a million tokens is a slip of the finger."""


@dataclass(frozen=True)
class Price:
    """Currency units for a million tokens."""

    input: Decimal
    output: Decimal


Prices = Mapping[str, Price]


class PricesWrong(ValueError):
    """The text does not say prices. The message names the part that is wrong."""


def parse_prices(text: str) -> dict[str, Price]:
    """Prices by model, from `model=input/output,other=input/output`. Raises PricesWrong."""
    prices: dict[str, Price] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        model, equals, pair = (piece.strip() for piece in part.partition("="))
        into, slash, out = (piece.strip() for piece in pair.partition("/"))
        if not (model and equals and slash):
            raise PricesWrong(f"“{part}” is not model=input/output")
        if model in prices:
            raise PricesWrong(f"“{model}” is there twice")
        prices[model] = Price(_amount(into, part), _amount(out, part))
    return prices


def _amount(text: str, part: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise PricesWrong(f"“{part}” is not model=input/output") from None
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise PricesWrong(f"“{part}”: a price is a number from 0 to {MOST:,}")
    return amount
