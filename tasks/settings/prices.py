"""Parses the prices of models in MODEL_PRICES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MAX_PRICE = Decimal(1_000_000)
"""Limits the price of a million tokens: a higher price is taken for a typing error."""


@dataclass(frozen=True)
class Price:
    """Represents the price of a model, in currency units for a million tokens."""

    input: Decimal
    output: Decimal


Prices = Mapping[str, Price]


class PricesWrong(ValueError):
    """Raised when the text is not a list of prices. The message names the wrong part."""


def parse_prices(text: str) -> dict[str, Price]:
    """Return prices by model, from `model=input/output,other=input/output`. Raises PricesWrong."""
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
    if not amount.is_finite() or not 0 <= amount <= MAX_PRICE:
        raise PricesWrong(f"“{part}”: a price is a number from 0 to {MAX_PRICE:,}")
    return amount
