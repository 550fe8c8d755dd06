"""OpenAI's background mode: hand a request over, and ask afterwards. https://developers.openai.com/docs/guides/background

An answer that got lost on the way to us is not lost: whoever knows the response's id can fetch it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tasks.ledger.errors import Category
from tasks.provider.base import Answer, Pending, Prompt, ProviderError, clean_identifier
from tasks.provider.openai_api import OpenAIProvider, checked_headers
from tasks.provider.response_parser import json_object, read_answer

_RESPONSE_ID = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")  # it becomes a part of an address
_GOING_ON = frozenset({"queued", "in_progress"})
_OVER = frozenset({"completed", "failed", "incomplete", "cancelled"})
_NOT_TO_BE_CANCELLED = frozenset({400, 404, 405, 409, 422})  # it is over or gone, or the server cannot cancel
GONE = "response_gone"


class BackgroundOpenAIProvider(OpenAIProvider):
    """The Responses API, with what it can do while nobody is connected."""

    async def start(self, prompt: Prompt, *, client_request_id: str, metadata: Mapping[str, str]) -> Answer | Pending:
        async def ask() -> Answer | Pending:
            raw = await self._responses.create(
                **self._request(prompt),
                background=True,
                store=True,  # said aloud: some projects lose the answer after minutes otherwise
                metadata=dict(metadata),
                extra_headers=checked_headers(client_request_id),
            )
            return _pending(raw.content) or self._answer(raw.content, raw.headers.get("x-request-id"))

        return await self._exchange(ask)

    async def look(self, response_id: str) -> Answer | Pending:
        async def ask() -> Answer | Pending:
            raw = await self._responses.retrieve(response_id)
            pending, request_id = _pending(raw.content), raw.headers.get("x-request-id")
            if pending is not None:
                return pending
            if _status(raw.content) not in _OVER:  # a maintenance page, for instance
                raise ProviderError(Category.UNCERTAIN, "unreadable", sent=True, http_status=200, request_id=request_id)
            try:
                return self._answer(raw.content, request_id)
            except ProviderError as error:
                error.response_over = True
                raise

        try:
            return await self._exchange(ask)
        except ProviderError as error:
            if error.http_status != 404:
                raise
            gone = _gone(error)
        raise gone

    async def withdraw(self, response_id: str) -> Answer | None:
        try:
            await self._exchange(lambda: self._responses.cancel(response_id))
        except ProviderError as error:
            if error.http_status not in _NOT_TO_BE_CANCELLED:
                raise
        try:
            # Some become complete although they were said to be cancelled.
            # https://learn.microsoft.com/en-ca/answers/questions/2339607
            seen = await self.look(response_id)
        except ProviderError as error:
            if error.code == GONE or not error.response_over:
                raise
            return None
        if isinstance(seen, Pending):
            raise ProviderError(Category.OVERLOADED, "still_running", sent=True)
        return seen

    async def delete(self, response_id: str) -> None:
        try:
            await self._exchange(lambda: self._responses.delete(response_id))
        except ProviderError as error:
            if error.http_status != 404:
                raise

    def _answer(self, body: bytes, request_id: str | None) -> Answer:
        return read_answer("responses", body, model=self._settings.model, request_id=request_id)


def _pending(body: bytes) -> Pending | None:
    """None for whatever does not say that it goes on, or not under an id that can be asked about."""
    response_id = clean_identifier((json_object(body) or {}).get("id"))
    if _status(body) not in _GOING_ON or response_id is None or not _RESPONSE_ID.match(response_id):
        return None
    return Pending(response_id)


def _status(body: bytes) -> str | None:
    status = (json_object(body) or {}).get("status")
    return status if isinstance(status, str) else None


def _gone(error: ProviderError) -> ProviderError:
    return ProviderError(
        Category.UNCERTAIN,
        GONE,
        sent=True,
        http_status=error.http_status,
        error_code=error.error_code,
        request_id=error.request_id,
        response_over=True,
    )
