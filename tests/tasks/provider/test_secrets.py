"""Tests that no error holds the key, the document or the provider's text, and that bad settings are refused early."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

import openai
import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import ProviderError, ProviderSettings, complete_within, make_provider
from tasks.provider.base import Answer, Prompt
from tests.support.provider_errors import KEY, assert_harmless

Settings = Callable[..., ProviderSettings]


def refused(settings: ProviderSettings) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        make_provider(settings)
    assert_harmless(caught.value)
    assert (caught.value.category, caught.value.sent) == (Category.AUTH, False)
    return caught.value


@pytest.mark.parametrize("inner", ["\n", "\r\n", " ", "\t", "\x00", "é", "\u200b"])
def test_key_that_cannot_be_a_header_is_refused_at_once(settings: Settings, inner: str) -> None:
    assert refused(settings(api_key=KEY + inner + "tail")).code == "malformed_key"


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_missing_key(settings: Settings, key: str | None) -> None:
    assert refused(settings(api_key=key)).code == "missing_key"


def test_white_space_around_a_key_is_taken_off(fake: FakeProvider, call: Callable[..., Answer]) -> None:
    call(api_key=f" {KEY}\n")
    assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_negative_control_the_sdk_alone_tells_the_key(fake: FakeProvider) -> None:
    async def ask() -> None:
        async with openai.AsyncOpenAI(api_key=f"{KEY}\n", base_url=fake.base_url, max_retries=0) as client:
            await client.responses.create(model="m", input="x")

    with pytest.raises(openai.APIConnectionError) as caught:
        asyncio.run(ask())
    assert KEY in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1/v1", "ftp://host/v1", "http://", "http://[::1/v1", "https://user:PROXYPASSWORD@host/v1"]
)
def test_address_that_cannot_work(settings: Settings, address: str) -> None:
    assert refused(settings(base_url=address)).code == "base_url"


def test_proxy_that_cannot_work_is_not_quoted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://user:PROXYPASSWORD@host")
    assert refused(settings()).code == "client_settings"


def test_settings_do_not_show_the_key(settings: Settings) -> None:
    assert KEY not in repr(settings())


@pytest.mark.parametrize("mode", ["auth", "rst", "cut_body", "hang", "badjson", "badgzip"])
def test_error_is_harmless_also_inside_the_handling_of_another(
    fake: FakeProvider, settings: Settings, prompt: Prompt, mode: str
) -> None:
    fake.script([{"mode": mode}])

    async def ask() -> None:
        provider = make_provider(settings())
        try:
            await complete_within(provider, prompt, budget_seconds=0.5, client_request_id="call-1")
        except ProviderError as error:
            assert_harmless(error)
            raise
        finally:
            await provider.close()

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    assert_harmless(caught.value)


@pytest.mark.parametrize("client_request_id", ["", "two\nlines", "é", "x" * 201])
def test_client_request_id_that_cannot_be_a_header(
    fake: FakeProvider, settings: Settings, prompt: Prompt, client_request_id: str
) -> None:
    async def ask() -> None:
        provider = make_provider(settings())
        try:
            await provider.complete(prompt, client_request_id=client_request_id)
        finally:
            await provider.close()

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    assert (caught.value.category, caught.value.code) == (Category.INTERNAL, "client_request_id")
    assert fake.requests == []


def test_call_after_close(settings: Settings, prompt: Prompt) -> None:
    async def ask() -> None:
        provider = make_provider(settings())
        await provider.close()
        await provider.complete(prompt, client_request_id="call-1")

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    assert (caught.value.category, caught.value.code, caught.value.sent) == (
        Category.CONNECTION,
        "client_closed",
        False,
    )
