"""Whether the AI service takes our key. It costs a call, so it is asked only when that is wished."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotInTime

from tasks.ledger.errors import Category
from tasks.preflight.report_line import Finding, Level
from tasks.provider import Prompt, ProviderError
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.process import provider_settings

QUESTION = "AI service"
SMALLEST_OUTPUT = 16
STOPS_THE_LANE = frozenset({Category.AUTH, Category.PERMISSION, Category.QUOTA})


def finding(settings: Settings, *, call: bool) -> Finding:
    """Make one small call, if wished."""
    if settings.ai_provider == "local":
        return Finding(Level.OK, QUESTION, "none: extracts are made on this server")
    if not call:
        return Finding(Level.SKIP, QUESTION, "not asked", "With --call-provider one small call is made")
    loop = ProviderLoop(provider_settings(settings))
    began = time.monotonic()
    try:
        loop.start()
        prompt = Prompt("Answer with one word.", "Are you ready?", max_output_tokens=SMALLEST_OUTPUT)
        answer = loop.submit(prompt, client_request_id=uuid.uuid4().hex, budget_seconds=settings.provider_call_seconds)
        answer.result(settings.provider_call_seconds + 5)
    except ProviderError as error:
        return _failed(error, time.monotonic() - began)
    except (NotInTime, CancelledError):
        return Finding(Level.WARN, QUESTION, f"no answer in {settings.provider_call_seconds:g} s", "Try again later")
    finally:
        loop.close(2.0)
    return _well(settings.ai_model, time.monotonic() - began)


def _well(model: str, seconds: float) -> Finding:
    return Finding(Level.OK, QUESTION, f"took the key, and {model} answered in {seconds:.1f} s")


def _failed(error: ProviderError, seconds: float) -> Finding:
    if error.code == "output_limit":  # a model that thinks first; that it was cut off shows that it was let in
        return Finding(Level.OK, QUESTION, f"took the key, and answered in {seconds:.1f} s")
    said = f"{error.category}{f', {error.code}' if error.code else ''} after {seconds:.1f} s"
    if error.category in STOPS_THE_LANE:
        remedy = "Every job would wait. Check OPENAI_API_KEY, AI_MODEL, OPENAI_BASE_URL and the budget of the account"
        return Finding(Level.FAIL, QUESTION, said, remedy)
    return Finding(Level.WARN, QUESTION, said, "Try again in a few minutes")
