"""One provider call with its row: written before the request, closed with what came back, or with `unknown`."""

from __future__ import annotations

import random
import uuid
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tasks.database import Persist
from tasks.fault_points import reached
from tasks.heartbeat import HeldClaim, Stopped, StopReason
from tasks.ledger import calls, lanes
from tasks.ledger.calls import CallReport, NewCall
from tasks.ledger.errors import AttemptTimedOut, Category
from tasks.ledger.lanes import Closed
from tasks.ledger.states import CallOutcome, LaneState
from tasks.ledger.transitions import LANE_SPREAD_SECONDS
from tasks.provider import Answer, CallProgress, Prompt, ProviderError
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings

STOPS_THE_LANE = frozenset({Category.QUOTA, Category.AUTH, Category.PERMISSION})
COOLS_THE_LANE = frozenset({(Category.OVERLOADED, "overloaded")})  # a plain 500 may be about one document only
FULL_LANE_SECONDS = 1.0
LOOK_AROUND_SECONDS = 1.0  # RQ's timeout is delivered between two bytecodes, so no wait is longer than this


class LaneClosed(Exception):
    """No call can be made now. The job is to be handed back and to wait for the lane."""

    def __init__(self, lane: str, closed: Closed) -> None:
        super().__init__(lane)
        self.lane = lane
        self.closed = closed


@dataclass(frozen=True)
class Answered:
    """A call that brought an answer. Its row is still open: close it with `report` where the answer is saved."""

    call_id: uuid.UUID
    answer: Answer
    report: CallReport


class RecordedCall:
    """The way to the provider for one attempt."""

    def __init__(
        self,
        held: HeldClaim,
        loop: ProviderLoop,
        settings: Settings,
        persist: Persist,
    ):
        self._held = held
        self._loop = loop
        self._settings = settings
        self._persist = persist

    def ask(self, prompt: Prompt, *, step: str) -> Answered:
        """Make the call. Raises ProviderError, Stopped, AttemptTimedOut; the row says the same."""
        call_id = self._open(step)
        reached("worker.call_recorded")
        answer = self._make(prompt, call_id)
        reached("worker.answered")
        return Answered(call_id, answer, report_of_answer(answer))

    def _open(self, step: str) -> uuid.UUID:
        claim = self._held.claim
        call = NewCall(
            step=step,
            lane=self._settings.lane,
            provider=self._loop.provider.name,
            model=self._settings.ai_model if self._settings.ai_provider == "openai" else self._loop.provider.name,
            limit=self._settings.provider_concurrency,
            probe_seconds=self._settings.provider_call_seconds,
        )
        while True:
            self._held.check()
            opened = self._persist(lambda session: calls.open_call(session, claim.job_id, claim.generation, call))
            if isinstance(opened, uuid.UUID):
                return opened
            if opened is None:
                raise Stopped(StopReason.CANCEL)  # or the claim is gone: handing it back will tell
            if isinstance(opened, Closed):
                raise LaneClosed(call.lane, opened)
            if self._held.seconds_left < self._settings.provider_call_seconds:
                # No time is left for a whole call in this attempt, so another one makes it.
                raise LaneClosed(call.lane, Closed(LaneState.OPEN, FULL_LANE_SECONDS, None))
            self._held.stopping.wait(random.uniform(0.5, 1.5) * FULL_LANE_SECONDS)

    def _make(self, prompt: Prompt, call_id: uuid.UUID) -> Answer:
        progress = CallProgress()
        try:
            future = self._loop.submit(
                prompt,
                client_request_id=str(call_id),
                budget_seconds=min(self._settings.provider_call_seconds, max(0.1, self._held.seconds_left)),
                progress=progress,
            )
            self._held.at_stop(future.cancel)
            try:
                return self._await(future)
            finally:
                future.cancel()  # of no effect once it is done; nothing goes on behind our back otherwise
        except ProviderError as error:
            self._close(call_id, report_of_error(error), error)
            raise
        except Stopped as stopped:
            cancelled = stopped.reason is StopReason.CANCEL
            self._close(call_id, cut_off(progress, CallOutcome.CANCELLED if cancelled else CallOutcome.UNKNOWN))
            raise
        except BaseException:
            self._close(call_id, cut_off(progress, CallOutcome.UNKNOWN))
            raise

    def _await(self, future: Future[Answer]) -> Answer:
        while True:
            left = self._held.seconds_left
            if left <= 0:
                raise AttemptTimedOut
            try:
                return future.result(min(LOOK_AROUND_SECONDS, left))
            except NotYet:
                continue
            except CancelledError:
                self._held.check()
                raise AttemptTimedOut from None  # nobody told us to stop, so the loop itself ended

    def _close(self, call_id: uuid.UUID, report: CallReport, error: ProviderError | None = None) -> None:
        def close(session: Session) -> None:
            calls.close_call(session, call_id, report)
            if error is not None:
                mark_lane(session, self._settings.lane, error)

        self._persist(close)


def mark_lane(session: Session, lane: str, error: ProviderError) -> None:
    """What this error says about the way to the provider, for everybody. One about the document says: it is open."""
    if error.category in STOPS_THE_LANE:
        lanes.stop(session, lane, category=error.category, code=error.code)
    elif error.category is Category.RATE_LIMITED or (error.category, error.code) in COOLS_THE_LANE:
        lanes.cool(session, lane, seconds=error.retry_after_seconds, category=error.category, code=error.code)
    elif error.http_status is not None:
        lanes.answered(session, lane, spread_seconds=LANE_SPREAD_SECONDS)


def report_of_answer(answer: Answer) -> CallReport:
    """What the row of a call says after this answer."""
    return CallReport(
        CallOutcome.SUCCEEDED,
        code="output_limit" if answer.cut_off else None,
        request_id=answer.request_id,
        response_id=answer.response_id,
        model=answer.model,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )


def report_of_error(error: ProviderError) -> CallReport:
    """What the row of a call says after this error."""
    return CallReport(
        CallOutcome.UNKNOWN if error.category is Category.UNCERTAIN else CallOutcome.FAILED,
        category=error.category,
        code=error.error_code or error.code,
        http_status=error.http_status,
        request_id=error.request_id,
    )


def cut_off(progress: CallProgress, outcome: CallOutcome) -> CallReport:
    """What the row of a call says that we ended ourselves. One that was never sent cannot have been billed."""
    if not progress.sent:
        return CallReport(CallOutcome.FAILED, category=Category.CONNECTION, code="never_sent")
    return CallReport(outcome, category=Category.UNCERTAIN, code="cut_off")
