"""The hooks of our HTTP client: they record when a request is sent, and limit the size of its response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tasks.provider.base import call_progress

# A response with a summary takes about ten kilobytes.
MAX_ANSWER_BYTES = 8 * 1024 * 1024


class AnswerTooBig(httpx2.TransportError):
    """Raised when a response is far too large for an answer: a wrong URL may start a download that never ends."""


async def watch_sending(request: httpx2.Request) -> None:
    """Record in the call's progress when its first byte is about to leave.

    Runs in the task of the call, so in its context. https://www.python-httpx.org/advanced/extensions/#trace
    """
    progress = call_progress.get()

    async def trace(event: str, info: dict[str, Any]) -> None:
        if progress is not None and event.endswith("send_request_headers.started"):
            progress.sent = True

    request.extensions["trace"] = trace


async def bound_answer(response: httpx2.Response) -> None:
    """Limit the size of a response, whatever its status, so that it cannot fill the memory."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in self._stream:
            received += len(chunk)
            if received > MAX_ANSWER_BYTES:
                raise AnswerTooBig(f"more than {MAX_ANSWER_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
