"""One event loop in its own thread, on which every provider call of a process runs.

Worker slots are threads that wait; the calls are coroutines. So a budget is a true wall clock, a cancelled call closes
its connection, and 200 calls in flight need one thread here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from tasks.ledger.errors import Category
from tasks.provider import make_provider
from tasks.provider.base import Answer, CallProgress, Prompt, Provider, ProviderError
from tasks.provider.budget import complete_within
from tasks.provider.settings import ProviderSettings


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
        with self._closing:
            if self._closed or self._loop is None:
                raise ProviderError(Category.CONNECTION, "client_closed", sent=False)
            call = self._call(prompt, client_request_id, budget_seconds, progress)
            return asyncio.run_coroutine_threadsafe(call, self._loop)

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
        self, prompt: Prompt, client_request_id: str, budget_seconds: float, progress: CallProgress | None
    ) -> Answer:
        assert self._places is not None
        async with self._places:
            return await complete_within(
                self.provider,
                prompt,
                budget_seconds=budget_seconds,
                client_request_id=client_request_id,
                progress=progress,
            )

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
