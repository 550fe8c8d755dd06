"""Tests the wall-clock budget against servers that never stop sending and never finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import Prompt, ProviderError, ProviderSettings, complete_within, make_provider

TRICKLES = [{"mode": "drip", "every": 0.05}, {"mode": "drip_headers", "every": 0.05}]
BUDGET = 0.4


@pytest.mark.parametrize("step", [*TRICKLES, {"mode": "hang"}], ids=lambda step: step["mode"])
def test_call_ends_with_its_budget(
    fake: FakeProvider, failure: Callable[..., ProviderError], step: dict[str, object]
) -> None:
    fake.script([step])
    error = failure(budget_seconds=BUDGET)
    assert (error.category, error.code, error.sent) == (Category.UNCERTAIN, "call_budget", True)
    fake.wait_for_client_gone()


@pytest.mark.parametrize("step", TRICKLES, ids=lambda step: step["mode"])
def test_negative_control_limits_of_the_http_client_do_not_end_it(
    fake: FakeProvider, settings: Callable[..., ProviderSettings], prompt: Prompt, step: dict[str, object]
) -> None:
    fake.script([step])

    async def watch() -> bool:
        provider = make_provider(settings(call_seconds=BUDGET / 2))
        call = asyncio.create_task(provider.complete(prompt, client_request_id="call-1"))
        _, running = await asyncio.wait({call}, timeout=2 * BUDGET)
        call.cancel()
        await asyncio.wait({call})
        await provider.close()
        return bool(running)

    assert asyncio.run(watch()), "with limits of half the budget it must still run at twice the budget"


@pytest.mark.parametrize("budget", [float("nan"), float("inf")])
def test_budget_that_is_none_is_refused(
    settings: Callable[..., ProviderSettings], prompt: Prompt, budget: float
) -> None:
    async def call() -> None:
        provider = make_provider(settings())
        try:
            await complete_within(provider, prompt, budget_seconds=budget, client_request_id="call-1")
        finally:
            await provider.close()

    with pytest.raises(ValueError, match="budget"):
        asyncio.run(call())


@pytest.mark.parametrize("name", ["connect_timeout_seconds", "call_seconds", "concurrency"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limit_that_is_no_limit_is_refused(settings: Callable[..., ProviderSettings], name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        settings(**{name: value})
