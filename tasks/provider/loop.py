"""The event loop that runs all provider calls of a process, in its own thread.

Worker slots are threads that wait; the calls are coroutines. So a budget is a true wall clock, a cancelled call closes
its connection, and 200 calls in flight need a single thread here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from tasks.ledger.errors import Category
from tasks.provider import make_provider
from tasks.provider.base import Answer, BackgroundProvider, CallProgress, Pending, Prompt, Provider, ProviderError
from tasks.provider.deadline import within
from tasks.provider.settings import ProviderSettings

T = TypeVar("T")


class ProviderLoop:
    """Runs calls for other threads. Start it once, submit from any thread, close it once."""

    def __init__(
        self, settings: ProviderSettings, make: Callable[[ProviderSettings], Provider] = make_provider
    ) -> None:
        self._settings = settings
        self._make = make
        self._thread = threading.Thread(target=self._run, name="provider-loop", daemon=True)
        self._ready: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._slots: asyncio.Semaphore | None = None
        self._provider: Provider | None = None
        self._closing = threading.Lock()
        self._closed = False

    @property
    def provider(self) -> Provider:
        """Return the provider, for its name and label. Valid only after start()."""
        assert self._provider is not None, "not started"
        return self._provider

    @property
    def background(self) -> BackgroundProvider | None:
        """Return the provider if it supports background requests, else None."""
        return self.provider if isinstance(self.provider, BackgroundProvider) else None

    def start(self) -> None:
        """Return once calls can be submitted. Raises ProviderError if the provider cannot be created."""
        self._thread.start()
        self._ready.result()

    def submit(
        self, prompt: Prompt, *, client_request_id: str, budget_seconds: float, progress: CallProgress | None = None
    ) -> Future[Answer]:
        """Start a call. The future gives the answer or a ProviderError.

        Cancelling the future, from any thread, cuts the call off and closes its connection. The budget starts when the
        call gets a slot, so the caller must limit the wait for a slot: `future.result(timeout)`, then
        `future.cancel()`. Pass a `progress` to know afterwards whether a cancelled call had been sent. Raises
        ProviderError at once after close().
        """
        return self._submit(
            lambda: self.provider.complete(prompt, client_request_id=client_request_id), budget_seconds, progress
        )

    def submit_start(
        self,
        prompt: Prompt,
        *,
        client_request_id: str,
        metadata: Mapping[str, str],
        budget_seconds: float,
        progress: CallProgress | None = None,
    ) -> Future[Answer | Pending]:
        """Send a request as `BackgroundProvider.start` does. Works like `submit` otherwise."""
        return self._submit(
            lambda: self._background().start(prompt, client_request_id=client_request_id, metadata=metadata),
            budget_seconds,
            progress,
        )

    def submit_poll(self, response_id: str, *, budget_seconds: float) -> Future[Answer | Pending]:
        """Poll a response."""
        return self._submit(lambda: self._background().poll(response_id), budget_seconds)

    def submit_cancel(self, response_id: str, *, budget_seconds: float) -> Future[Answer | None]:
        """Cancel a response. The budget covers the cancel request and the poll after it."""
        return self._submit(lambda: self._background().cancel(response_id), budget_seconds)

    def submit_delete(self, response_id: str, *, budget_seconds: float) -> Future[None]:
        """Delete a response at the provider."""
        return self._submit(lambda: self._background().delete(response_id), budget_seconds)

    def _background(self) -> BackgroundProvider:
        provider = self.background
        assert provider is not None, "the provider has no background mode"
        return provider

    def _submit(
        self, exchange: Callable[[], Awaitable[T]], budget_seconds: float, progress: CallProgress | None = None
    ) -> Future[T]:
        with self._closing:
            if self._closed or self._loop is None:
                raise ProviderError(Category.CONNECTION, "client_closed", sent=False)
            return asyncio.run_coroutine_threadsafe(self._call(exchange, budget_seconds, progress), self._loop)

    def close(self, timeout: float) -> bool:
        """Cut off every call and close the connections. Returns False if that took longer than `timeout` seconds."""
        with self._closing:
            self._closed = True
            if self._loop is not None and self._stop is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    async def _call(
        self, exchange: Callable[[], Awaitable[T]], budget_seconds: float, progress: CallProgress | None
    ) -> T:
        assert self._slots is not None
        async with self._slots:
            return await within(exchange, budget_seconds=budget_seconds, progress=progress)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._serve(loop))
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            # Not shutdown_default_executor(): it would wait for a DNS lookup that nothing can interrupt.
            loop.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stop = asyncio.Event()
        self._slots = asyncio.Semaphore(self._settings.calls_at_once)
        self._provider = self._make(self._settings)
        self._loop = loop
        self._ready.set_result(None)
        try:
            await self._stop.wait()
        finally:
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await self._provider.close()
