"""Checks whether the AI service accepts our key. It costs a call, so it is made only on request."""

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
MIN_OUTPUT_TOKENS = 16
STOPS_THE_LANE = frozenset({Category.AUTH, Category.PERMISSION, Category.QUOTA})


def finding(settings: Settings, *, call: bool) -> Finding:
    """Make one small call if `call` is set, and return the finding."""
    if settings.ai_provider == "local":
        return Finding(Level.OK, QUESTION, "none: extracts are made on this server")
    if not call:
        return Finding(Level.SKIP, QUESTION, "not asked", "With --call-provider one small call is made")
    loop = ProviderLoop(provider_settings(settings))
    started_at = time.monotonic()
    try:
        loop.start()
        prompt = Prompt("Answer with one word.", "Are you ready?", max_output_tokens=MIN_OUTPUT_TOKENS)
        answer = loop.submit(prompt, client_request_id=uuid.uuid4().hex, budget_seconds=settings.provider_call_seconds)
        answer.result(settings.provider_call_seconds + 5)
    except ProviderError as error:
        return _failed(error, time.monotonic() - started_at)
    except (NotInTime, CancelledError):
        return Finding(Level.WARN, QUESTION, f"no answer in {settings.provider_call_seconds:g} s", "Try again later")
    finally:
        loop.close(2.0)
    return _answered(settings.ai_model, time.monotonic() - started_at)


def _answered(model: str, seconds: float) -> Finding:
    return Finding(Level.OK, QUESTION, f"took the key, and {model} answered in {seconds:.1f} s")


def _failed(error: ProviderError, seconds: float) -> Finding:
    if error.code == "output_limit":  # a reasoning model; a cut-off answer shows that the key was accepted
        return Finding(Level.OK, QUESTION, f"took the key, and answered in {seconds:.1f} s")
    measured = f"{error.category}{f', {error.code}' if error.code else ''} after {seconds:.1f} s"
    if error.category in STOPS_THE_LANE:
        remedy = "Every job would wait. Check OPENAI_API_KEY, AI_MODEL, OPENAI_BASE_URL and the budget of the account"
        return Finding(Level.FAIL, QUESTION, measured, remedy)
    return Finding(Level.WARN, QUESTION, measured, "Try again in a few minutes")
