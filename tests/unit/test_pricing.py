"""The cost of calls, the part of it that was wasted, and the part that is not known."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from tasks.ledger.models import ProviderCall
from tasks.pricing import cost_of, price_of, usage_of
from tasks.settings.prices import Price, PricesWrong, parse_prices
from webapp.jobs.usage import money, usage_in_words, usage_json

PRICES = parse_prices("gpt-5-mini=0.25/2.00, local/llama=0/0,")


def call(
    step: str = "summarise",
    outcome: str = "succeeded",
    tokens: tuple[int, int] | None = (1000, 100),
    model: str = "gpt-5-mini",
    **more: str,
) -> ProviderCall:
    into, out = tokens or (None, None)
    return ProviderCall(
        id=uuid.uuid4(), step=step, outcome=outcome, model=model, input_tokens=into, output_tokens=out, **more
    )


def test_prices_are_read_by_model() -> None:
    assert parse_prices("gpt-5-mini=0.25/2.00, local/llama=0/0,") == {
        "gpt-5-mini": Price(Decimal("0.25"), Decimal("2.00")),
        "local/llama": Price(Decimal(0), Decimal(0)),
    }
    assert parse_prices("") == parse_prices(" , ") == {}


@pytest.mark.parametrize(
    "text",
    [
        *("gpt", "gpt=1", "=1/2", "gpt=1/", "gpt=/1", "gpt=a/b", "gpt=-1/2", "gpt=nan/1", "gpt=Infinity/1"),
        *("gpt=1/2/3", "a=1/1,a=2/2", "gpt=1/9999999", "gpt=1.0/2.0;b=1/2", "gpt=1,5/2"),
    ],
)
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(PricesWrong):
        parse_prices(text)


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-5-mini-2025-08-07", "gpt-5-mini-20250807", "gpt-5-mini-latest"])
def test_a_dated_edition_has_its_models_price(model: str) -> None:
    assert price_of(model, PRICES) is PRICES["gpt-5-mini"]


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-mini-high", "gpt-5-minix", "GPT-5-mini", "mini", ""])
def test_another_model_has_not(model: str) -> None:
    assert price_of(model, PRICES) is None


def test_a_call_costs_its_tokens_and_nothing_unknown_is_zero() -> None:
    assert cost_of(call(tokens=(1_000_000, 500_000)), PRICES) == Decimal("1.25")
    assert cost_of(call(model="local/llama"), PRICES) == 0
    assert cost_of(call(model="other"), PRICES) is None
    assert cost_of(call(tokens=None), PRICES) is None
    half = call()
    half.output_tokens = None
    assert cost_of(half, PRICES) is None


@pytest.mark.parametrize(
    ("calls", "wasted"),
    [
        ([call()], 0),
        ([call("part 1"), call("part 2"), call("fold")], 0),
        ([call(error_code="output_limit"), call()], 1),
        ([call(outcome="unknown", tokens=None), call()], 1),
        ([call(outcome="cancelled", tokens=None)], 1),
        ([call(outcome="failed", tokens=None), call()], 0),
        ([call(outcome="failed"), call()], 1),
        ([call(), call(outcome="open", tokens=None)], 0),
        ([call("a"), call("a"), call("a"), call("b")], 2),
    ],
    ids=["one", "parts", "cut off", "unknown", "cancelled", "refused", "failed with tokens", "in the air", "repeated"],
)
def test_what_was_asked_again_or_brought_nothing_is_wasted(calls: list[ProviderCall], wasted: int) -> None:
    assert usage_of(calls, PRICES).wasted.calls == wasted


def test_a_job_is_the_sum_of_its_calls() -> None:
    calls = [call(error_code="output_limit"), call(tokens=(234, 110)), call("x", "unknown", None)]
    usage = usage_of(calls, PRICES)
    assert (usage.total.input_tokens, usage.total.output_tokens, usage.total.unreported) == (1234, 210, 1)
    assert usage.total.cost == Decimal("0.0007285") and usage.wasted.cost == Decimal("0.00045")
    assert usage_in_words(usage) == ("1,234 tokens in, 210 out, 0.0007; of that wasted 0.0004; not reported for 1 call")
    assert usage_json(usage) == {
        "calls": 3,
        "calls_not_reported": 1,
        "input_tokens": 1234,
        "output_tokens": 210,
        "cost": "0.0007285",
        "wasted": {
            "calls": 2,
            "calls_not_reported": 1,
            "input_tokens": 1000,
            "output_tokens": 100,
            "cost": "0.00045",
        },
    }


def test_tokens_without_a_price_are_said_without_one() -> None:
    usage = usage_of([call(), call()], {})
    assert usage_in_words(usage) == "2,000 tokens in, 200 out; of that wasted 1,000 tokens in, 100 out"
    assert usage_json(usage)["cost"] is None
    mixed = usage_of([call("a"), call("b", model="other")], PRICES)
    assert mixed.total.cost is None, "half a sum is no sum"


def test_nothing_reported_is_said_so() -> None:
    assert usage_in_words(usage_of([call(tokens=None)], PRICES)) == "not reported"
    assert usage_in_words(usage_of([], PRICES)) == "no call yet"


@pytest.mark.parametrize(
    ("amount", "said"),
    [("0", "0"), ("0.00001", "less than 0.0001"), ("0.00123", "0.0012"), ("1234.567", "1,234.57"), ("0.5", "0.5000")],
)
def test_amounts(amount: str, said: str) -> None:
    assert money(Decimal(amount)) == said
