"""OpenAI's background mode: send a request, and poll it later. https://developers.openai.com/docs/guides/background

An answer that was lost on the way to us can still be fetched with the id of the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tasks.ledger.errors import Category
from tasks.provider.base import Answer, Pending, Prompt, ProviderError, clean_identifier
from tasks.provider.openai_api import OpenAIProvider, checked_headers
from tasks.provider.response_parser import json_object, read_answer

_RESPONSE_ID = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")  # it becomes part of a URL
_RUNNING = frozenset({"queued", "in_progress"})
_OVER = frozenset({"completed", "failed", "incomplete", "cancelled"})
_CANNOT_CANCEL = frozenset({400, 404, 405, 409, 422})  # it is over or gone, or the server cannot cancel
GONE = "response_gone"


class BackgroundOpenAIProvider(OpenAIProvider):
    """Adds the background mode of the Responses API."""

    async def start(self, prompt: Prompt, *, client_request_id: str, metadata: Mapping[str, str]) -> Answer | Pending:
        async def ask() -> Answer | Pending:
            raw = await self._responses.create(
                **self._request(prompt),
                background=True,
                store=True,  # explicit, because some projects otherwise lose the answer after minutes
                metadata=dict(metadata),
                extra_headers=checked_headers(client_request_id),
            )
            return _pending(raw.content) or self._answer(raw.content, raw.headers.get("x-request-id"))

        return await self._exchange(ask)

    async def poll(self, response_id: str) -> Answer | Pending:
        async def ask() -> Answer | Pending:
            raw = await self._responses.retrieve(response_id)
            pending, request_id = _pending(raw.content), raw.headers.get("x-request-id")
            if pending is not None:
                return pending
            if _status(raw.content) not in _OVER:  # such as a maintenance page
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

    async def cancel(self, response_id: str) -> Answer | None:
        try:
            await self._exchange(lambda: self._responses.cancel(response_id))
        except ProviderError as error:
            if error.http_status not in _CANNOT_CANCEL:
                raise
        try:
            # Some responses complete although the server reported them as cancelled.
            # https://learn.microsoft.com/en-ca/answers/questions/2339607
            result = await self.poll(response_id)
        except ProviderError as error:
            if error.code == GONE or not error.response_over:
                raise
            return None
        if isinstance(result, Pending):
            raise ProviderError(Category.OVERLOADED, "still_running", sent=True)
        return result

    async def delete(self, response_id: str) -> None:
        try:
            await self._exchange(lambda: self._responses.delete(response_id))
        except ProviderError as error:
            if error.http_status != 404:
                raise

    def _answer(self, body: bytes, request_id: str | None) -> Answer:
        return read_answer("responses", body, model=self._settings.model, request_id=request_id)


def _pending(body: bytes) -> Pending | None:
    """Return a Pending if the response is running under an id that can be polled, else None."""
    response_id = clean_identifier((json_object(body) or {}).get("id"))
    if _status(body) not in _RUNNING or response_id is None or not _RESPONSE_ID.match(response_id):
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
