"""The provider for OpenAI and every server with its Responses or Chat Completions API."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
import openai

from tasks.ledger.errors import Category
from tasks.provider.base import Answer, CallProgress, Prompt, ProviderError, call_progress, clean_identifier
from tasks.provider.error_classifier import classify_exception
from tasks.provider.prompt import messages
from tasks.provider.response_parser import read_answer
from tasks.provider.send_tracker import bound_answer, watch_sending
from tasks.provider.settings import OPENAI_BASE_URL, ProviderSettings

T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]+\Z")


class OpenAIProvider:
    """Holds one client and one connection pool. Belongs to the event loop of its first call."""

    name = "openai"

    def __init__(self, settings: ProviderSettings) -> None:
        """Create the client. Raises ProviderError(AUTH) for a key, a URL or a proxy that cannot work."""
        self._settings = settings
        try:
            self._client = _make_client(settings)
            # The SDK imports these on first use, which should not count against the budget of the first call.
            self._responses = self._client.responses.with_raw_response
            self._chat = self._client.chat.completions.with_raw_response
            return
        except ProviderError as error:
            failure = error
        except Exception:  # its message quotes the invalid value, such as the URL of a proxy with its password
            failure = ProviderError(Category.AUTH, "client_settings", sent=False)
        raise failure

    @property
    def label(self) -> str:
        return f"Made by the AI model {self._settings.model}"

    async def complete(self, prompt: Prompt, *, client_request_id: str) -> Answer:
        async def ask() -> Answer:
            raw = await self._send(prompt, checked_headers(client_request_id))
            return read_answer(
                self._settings.api, raw.content, model=self._settings.model, request_id=raw.headers.get("x-request-id")
            )

        return await self._exchange(ask)

    async def _exchange(self, exchange: Callable[[], Awaitable[T]]) -> T:
        """Run an exchange with the provider; all of them go through here. Raises only ProviderError."""
        progress = call_progress.get() or CallProgress()
        token = call_progress.set(progress)
        try:
            return await exchange()
        except Exception as error:
            failure = classify_exception(error, sent=progress.sent)
        finally:
            call_progress.reset(token)
        # Raised here and not in the handler, where it would carry the SDK's error as __context__, and with it the
        # document, the provider's message and, for a malformed key, the key.
        raise failure

    async def close(self) -> None:
        await self._client.close()

    async def _send(self, prompt: Prompt, headers: dict[str, str]) -> Any:
        if self._settings.api == "responses":
            return await self._responses.create(**self._request(prompt), store=False, extra_headers=headers)
        system, user = messages(prompt)
        limit = prompt.max_output_tokens
        return await self._chat.create(
            model=self._settings.model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            max_completion_tokens=openai.omit if limit is None else limit,
            extra_headers=headers,
        )

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the parameters of a request to the Responses API, the same with and without background mode."""
        system, user = messages(prompt)
        limit = prompt.max_output_tokens
        return {
            "model": self._settings.model,
            "instructions": system,
            "input": user,
            "max_output_tokens": openai.omit if limit is None else limit,
        }


def checked_headers(client_request_id: str) -> dict[str, str]:
    """Return the headers that carry our id of a call. Raises ProviderError(INTERNAL) for an invalid id.

    With the first header OpenAI's support can find a call whose answer never came. The second is not documented for
    these endpoints: gateways may use it, no code here relies on it.
    """
    if clean_identifier(client_request_id) is None:
        raise ProviderError(Category.INTERNAL, "client_request_id", sent=False)
    return {"X-Client-Request-Id": client_request_id, "Idempotency-Key": client_request_id}


def _make_client(settings: ProviderSettings) -> openai.AsyncOpenAI:
    key = _checked_key(settings.api_key)
    base_url = _checked_base_url(settings.base_url or OPENAI_BASE_URL)
    wait, connect = settings.call_seconds, settings.connect_timeout_seconds
    timeout = httpx2.Timeout(connect=connect, read=wait, write=wait, pool=connect)
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,  # only the ledger retries
        timeout=timeout,  # set here too: the SDK ignores a client's timeout that equals the library's default
        http_client=httpx2.AsyncClient(
            timeout=timeout,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency),
            event_hooks={"request": [watch_sending], "response": [bound_answer]},
        ),
    )


def _checked_key(key: str | None) -> str:
    """Return the key without the white space around it. Raises ProviderError(AUTH) for a missing or malformed key.

    A line break in the key would make the HTTP client raise an error that quotes it, so such a key is refused here.
    """
    key = (key or "").strip()
    if not key:
        raise ProviderError(Category.AUTH, "missing_key", sent=False)
    if not _KEY.match(key):
        raise ProviderError(Category.AUTH, "malformed_key", sent=False)
    return key


def _checked_base_url(base_url: str) -> str:
    try:
        url = httpx2.URL(base_url.strip())
        # A password in the URL would be in every log line that names the URL.
        usable = url.scheme in ("http", "https") and bool(url.host) and not url.userinfo
    except httpx2.InvalidURL:
        usable = False
    if not usable:
        raise ProviderError(Category.AUTH, "base_url", sent=False)
    return base_url.strip()
