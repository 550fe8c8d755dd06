"""Runs the real SDK against a scripted server on loopback, without the developer's environment variables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tasks.fake_provider import FakeProvider
from tasks.provider import Answer, Prompt, ProviderError, ProviderSettings, complete_within, make_provider
from tests.support.provider_errors import DOCUMENT, KEY, assert_harmless

Settings = Callable[..., ProviderSettings]
Call = Callable[..., Answer]


@pytest.fixture(autouse=True, scope="module")
def _plain_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith("OPENAI_") or name.upper().endswith("_PROXY"):
                patch.delenv(name)
        yield


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.fixture
def prompt() -> Prompt:
    return Prompt("Summarise the document.", DOCUMENT, {"length": "short", "form": "prose"})


@pytest.fixture
def settings(fake: FakeProvider) -> Settings:
    """Build settings for the fake provider, with changes."""

    def build(**changes: Any) -> ProviderSettings:
        return ProviderSettings(
            **{
                "provider": "openai",
                "api_key": KEY,
                "base_url": fake.base_url,
                "model": "small-1",
                "connect_timeout_seconds": 2,
                "call_seconds": 5,
                **changes,
            }
        )

    return build


@pytest.fixture
def call(settings: Settings, prompt: Prompt) -> Call:
    """Make one call with a new provider. Returns the answer or raises the error of the call."""

    def make_call(asked: Prompt = prompt, *, budget_seconds: float = 10, **changes: Any) -> Answer:
        async def once() -> Answer:
            provider = make_provider(settings(**changes))
            try:
                return await complete_within(provider, asked, budget_seconds=budget_seconds, client_request_id="call-1")
            finally:
                await provider.close()

        return asyncio.run(once())

    return make_call


@pytest.fixture
def failure(call: Call) -> Callable[..., ProviderError]:
    """Return the error of a call, after checking that it may be logged."""

    def fail(*args: Any, **changes: Any) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            call(*args, **changes)
        assert_harmless(caught.value)
        return caught.value

    return fail
