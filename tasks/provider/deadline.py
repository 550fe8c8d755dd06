"""The wall-clock budget of one call.

The timeout of an SDK or HTTP client limits each socket operation, and every byte that arrives restarts it: a server
that trickles keeps its client forever (https://github.com/pydantic/httpx2/issues/557). Only a clock around the whole
call limits the whole call.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tasks.ledger.errors import Category
from tasks.provider.base import Answer, CallProgress, Prompt, Provider, ProviderError, call_progress

T = TypeVar("T")


async def complete_within(
    provider: Provider,
    prompt: Prompt,
    *,
    budget_seconds: float,
    client_request_id: str,
    progress: CallProgress | None = None,
) -> Answer:
    """Return the answer within the budget. Raises ProviderError, as `within` does."""
    return await within(
        lambda: provider.complete(prompt, client_request_id=client_request_id),
        budget_seconds=budget_seconds,
        progress=progress,
    )


async def within(
    exchange: Callable[[], Awaitable[T]], *, budget_seconds: float, progress: CallProgress | None = None
) -> T:
    """Return the result of the exchange within the budget, in seconds. Closes the connection when it cuts one off.

    Raises ProviderError if the budget is over: UNCERTAIN after the request began to leave, since the server may finish
    and bill it; TIMEOUT before that. Pass a `progress` to know `sent` even if the call is cancelled from outside.
    """
    if not math.isfinite(budget_seconds):
        raise ValueError(f"a budget must be a number of seconds, not {budget_seconds!r}")
    progress = progress or CallProgress()
    token = call_progress.set(progress)
    try:
        async with asyncio.timeout(budget_seconds):
            return await exchange()
    except TimeoutError:
        pass
    finally:
        call_progress.reset(token)
    # Raised here and not in the handler, where it would carry the error of the cut-off call as __context__.
    raise ProviderError(Category.UNCERTAIN if progress.sent else Category.TIMEOUT, "call_budget", sent=progress.sent)
