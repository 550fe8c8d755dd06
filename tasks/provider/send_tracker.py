"""What our client watches for on the wire: when a request leaves, and how long its answer gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tasks.provider.base import call_progress

# A summary with everything around it takes some ten kilobytes.
MAX_ANSWER_BYTES = 8 * 1024 * 1024


class AnswerTooBig(httpx2.TransportError):
    """The server sends far more than any answer has; a wrong address may lead to a download that never ends."""


async def watch_sending(request: httpx2.Request) -> None:
    """Note in the call's progress when its first byte is about to leave.

    Runs in the task of the call, hence in its context. https://www.python-httpx.org/advanced/extensions/#trace
    """
    progress = call_progress.get()

    async def trace(event: str, info: dict[str, Any]) -> None:
        if progress is not None and event.endswith("send_request_headers.started"):
            progress.sent = True

    request.extensions["trace"] = trace


async def bound_answer(response: httpx2.Response) -> None:
    """Let no answer, of whatever status, fill the memory."""
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
