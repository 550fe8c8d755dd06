"""One provider call with its row: written before the request, closed with what came back, or with `unknown`.

In background mode the provider names the response before it works on it. The name is saved at once, the attempt hands
the job back, and a later one asks about the response instead of having it made again.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from tasks.call_reports import cut_off, mark_lane, report_of_answer, report_of_error
from tasks.database import Persist
from tasks.fault_points import fault_point
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport, NewCall, OpenResponse
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.errors import AttemptTimedOut, Category, JobError
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.states import CallOutcome, LaneState
from tasks.provider import Answer, CallProgress, Prompt, ProviderError
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.heartbeat import HeldClaim, Stopped, StopReason
from tasks.worker.poll_backoff import poll_delay
from tasks.worker.retry_policy import UNKNOWN_CALLS_ALLOWED

log = structlog.get_logger()
T = TypeVar("T")
FULL_LANE_SECONDS = 1.0
LOOK_AROUND_SECONDS = 1.0  # RQ's timeout is delivered between two bytecodes, so no wait is longer than this


class LaneClosed(Exception):
    """No call can be made now. The job is to be handed back and to wait for the lane."""

    def __init__(self, lane: str, closed: Closed) -> None:
        super().__init__(lane)
        self.lane = lane
        self.closed = closed


class WaitsAtProvider(Exception):
    """The provider works on it. The job is to be handed back, and the provider to be asked again after `seconds`.

    None: nothing was handed over, since as many requests as allowed are being worked on.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.seconds = seconds


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
        """Make the call, or ask about one that was handed over for this step before.

        Raises ProviderError, Stopped, AttemptTimedOut, and the row says the same; LaneClosed; WaitsAtProvider.
        """
        begun = self._begin(step)
        if isinstance(begun, OpenResponse):
            call_id, answer = begun.call_id, self._look(begun)
        else:
            fault_point("worker.call_recorded")
            call_id = begun
            answer = self._hand_over(prompt, call_id) if self._settings.openai_background else self._make(prompt, begun)
        fault_point("worker.answered")
        return Answered(call_id, answer, report_of_answer(answer))

    def _begin(self, step: str) -> uuid.UUID | OpenResponse:
        """The call of this step that is still open at the provider, or the id of a new one."""
        claim = self._held.claim
        call = NewCall(
            step=step,
            lane=self._settings.lane,
            provider=self._loop.provider.name,
            model=self._settings.ai_model if self._settings.ai_provider == "openai" else self._loop.provider.name,
            limit=self._settings.provider_concurrency,
            probe_seconds=self._settings.provider_call_seconds,
            background=self._settings.openai_background,
        )

        def begin(session: Session) -> uuid.UUID | OpenResponse | Closed | Full | None:
            handed_over = calls.open_responses(session, claim.job_id).get(step)
            if handed_over is not None:
                return handed_over
            lost = calls.lost_since_replay(session, claim.job_id, step) if call.background else 0
            if lost > UNKNOWN_CALLS_ALLOWED:  # crashes ask no retry policy
                raise JobError(Category.UNCERTAIN, "lost_again")
            return calls.open_call(session, claim.job_id, claim.generation, call)

        while True:
            self._held.check()
            begun = self._persist(begin)
            if isinstance(begun, uuid.UUID | OpenResponse):
                return begun
            if begun is None:
                raise Stopped(StopReason.CANCEL)  # or the claim is gone: handing it back will tell
            if isinstance(begun, Closed):
                raise LaneClosed(call.lane, begun)
            if call.background:
                raise WaitsAtProvider(None)  # what takes the places takes them for minutes
            if self._held.seconds_left < self._settings.provider_call_seconds:
                # No time is left for a whole call in this attempt, so another one makes it.
                raise LaneClosed(call.lane, Closed(LaneState.OPEN, FULL_LANE_SECONDS, None))
            self._held.stopping.wait(random.uniform(0.5, 1.5) * FULL_LANE_SECONDS)

    def _make(self, prompt: Prompt, call_id: uuid.UUID) -> Answer:
        return self._request(
            call_id,
            lambda progress: self._loop.submit(
                prompt, client_request_id=str(call_id), budget_seconds=self._budget_seconds, progress=progress
            ),
        )

    def _hand_over(self, prompt: Prompt, call_id: uuid.UUID) -> Answer:
        """Raises WaitsAtProvider, unless the server answers at once."""
        claim = self._held.claim
        metadata = {"job": str(claim.job_id), "generation": str(claim.generation), "call": str(call_id)}
        taken = self._request(
            call_id,
            lambda progress: self._loop.submit_start(
                prompt,
                client_request_id=str(call_id),
                metadata=metadata,
                budget_seconds=self._budget_seconds,
                progress=progress,
            ),
        )
        if isinstance(taken, Answer):
            return taken
        lane, response_id = self._settings.lane, taken.response_id
        fault_point("worker.response_started")
        self._persist(lambda session: calls.note_response(session, call_id, response_id, lane))
        fault_point("worker.response_saved")
        self._persist(lambda session: lanes.answered(session, lane, spread_seconds=LANE_SPREAD_SECONDS))
        raise WaitsAtProvider(poll_delay(0))

    def _look(self, handed_over: OpenResponse) -> Answer:
        """Raises WaitsAtProvider while it goes on, and also when only the look failed: that says nothing of it."""
        try:
            if self._loop.background is None:  # the site was set to a provider that knows nothing of it
                raise ProviderError(Category.UNCERTAIN, "response_gone", sent=True, response_over=True)
            seen = self._in_the_air(
                self._loop.submit_look(handed_over.response_id, budget_seconds=self._budget_seconds)
            )
        except ProviderError as error:
            if error.response_over:
                self._close(handed_over.call_id, report_of_error(error), error)
                raise
            failed = error
        else:
            if isinstance(seen, Answer):
                return seen
            raise WaitsAtProvider(poll_delay(handed_over.age_seconds))
        log.warning("response.look_failed", call=handed_over.call_id.hex, category=failed.category, code=failed.code)
        closed = self._persist(lambda session: mark_lane(session, self._settings.lane, failed))
        if closed is not None:
            raise LaneClosed(self._settings.lane, closed)
        raise WaitsAtProvider(poll_delay(handed_over.age_seconds))

    @property
    def _budget_seconds(self) -> float:
        return min(self._settings.provider_call_seconds, max(0.1, self._held.seconds_left))

    def _request(self, call_id: uuid.UUID, begin: Callable[[CallProgress], Future[T]]) -> T:
        """Send what makes the provider work; the row of the call tells of whatever goes wrong."""
        progress = CallProgress()
        try:
            return self._in_the_air(begin(progress))
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

    def _in_the_air(self, future: Future[T]) -> T:
        self._held.at_stop(future.cancel)
        try:
            return self._await(future)
        finally:
            future.cancel()  # of no effect once it is done; nothing goes on behind our back otherwise

    def _await(self, future: Future[T]) -> T:
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
