"""One event loop in its own thread, on which every provider call of a process runs.

Worker slots are threads that wait; the calls are coroutines. So a budget is a true wall clock, a cancelled call closes
its connection, and 200 calls in flight need one thread here.
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
    """Runs calls for other threads: start it once, submit from any thread, close it once."""

    def __init__(
        self, settings: ProviderSettings, make: Callable[[ProviderSettings], Provider] = make_provider
    ) -> None:
        self._settings = settings
        self._make = make
        self._thread = threading.Thread(target=self._run, name="provider-loop", daemon=True)
        self._ready: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._places: asyncio.Semaphore | None = None
        self._provider: Provider | None = None
        self._closing = threading.Lock()
        self._closed = False

    @property
    def provider(self) -> Provider:
        """The provider, for its name and label; only after start()."""
        assert self._provider is not None, "not started"
        return self._provider

    @property
    def background(self) -> BackgroundProvider | None:
        """The provider, if it can be asked about a request afterwards."""
        return self.provider if isinstance(self.provider, BackgroundProvider) else None

    def start(self) -> None:
        """Return once calls can be submitted. Raises ProviderError when the provider cannot be made."""
        self._thread.start()
        self._ready.result()

    def submit(
        self, prompt: Prompt, *, client_request_id: str, budget_seconds: float, progress: CallProgress | None = None
    ) -> Future[Answer]:
        """Begin a call. The future brings the answer or a ProviderError; cancelling it, from any thread, cuts the call
        off and closes its connection.

        The budget starts when the call gets one of the places, so the wait for a place is bounded by the caller alone:
        `future.result(timeout)`, then `future.cancel()`. Hand in a `progress` to know afterwards whether a cancelled
        call had been sent. After close(): ProviderError at once.
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
        """Hand a request over, as `BackgroundProvider.start` does. The rest is as in `submit`."""
        return self._submit(
            lambda: self._asked_later().start(prompt, client_request_id=client_request_id, metadata=metadata),
            budget_seconds,
            progress,
        )

    def submit_look(self, response_id: str, *, budget_seconds: float) -> Future[Answer | Pending]:
        """Ask how a response stands."""
        return self._submit(lambda: self._asked_later().look(response_id), budget_seconds)

    def submit_withdraw(self, response_id: str, *, budget_seconds: float) -> Future[Answer | None]:
        """Cancel a response; the budget is for all that belongs to it."""
        return self._submit(lambda: self._asked_later().withdraw(response_id), budget_seconds)

    def submit_delete(self, response_id: str, *, budget_seconds: float) -> Future[None]:
        """Let the provider forget a response."""
        return self._submit(lambda: self._asked_later().delete(response_id), budget_seconds)

    def _asked_later(self) -> BackgroundProvider:
        provider = self.background
        assert provider is not None, "only where `background` says so"
        return provider

    def _submit(
        self, exchange: Callable[[], Awaitable[T]], budget_seconds: float, progress: CallProgress | None = None
    ) -> Future[T]:
        with self._closing:
            if self._closed or self._loop is None:
                raise ProviderError(Category.CONNECTION, "client_closed", sent=False)
            return asyncio.run_coroutine_threadsafe(self._call(exchange, budget_seconds, progress), self._loop)

    def close(self, timeout: float) -> bool:
        """Cut off every call and close the connections; False when that took longer than the timeout, in seconds."""
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
        assert self._places is not None
        async with self._places:
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
            # Not shutdown_default_executor(): it would wait for a name look-up that nobody can interrupt.
            loop.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stop = asyncio.Event()
        self._places = asyncio.Semaphore(self._settings.calls_at_once)
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
