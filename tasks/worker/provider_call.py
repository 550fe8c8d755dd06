"""Makes one provider call with its row, which is written before the request and closed with the outcome or `unknown`.

In background mode the provider returns the id of a response before it works on it. The id is saved at once, the attempt
hands the job back, and a later attempt polls that response instead of requesting another.
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

from tasks.call_reports import STOPS_THE_LANE, cut_off, mark_lane, report_of_answer, report_of_error
from tasks.database import Persist
from tasks.fault_points import fault_point
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport, NewCall, OpenResponse
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.errors import AttemptTimedOut, Category
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.states import CallOutcome, LaneState
from tasks.provider import Answer, CallProgress, Prompt, ProviderError
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.endings import LaneClosed, Stopped, StopReason, WaitsAtProvider
from tasks.worker.heartbeat import HeldClaim
from tasks.worker.poll_backoff import poll_delay

log = structlog.get_logger()
T = TypeVar("T")
FULL_LANE_SECONDS = 1.0
LOOK_AROUND_SECONDS = 1.0  # RQ's timeout is raised between two bytecodes, so no wait may be longer than this


@dataclass(frozen=True)
class Answered:
    """Represents an answered call. Its row is still open: close it with `report` in the transaction that saves it."""

    call_id: uuid.UUID
    answer: Answer
    report: CallReport


class RecordedCall:
    """Makes the provider calls of one attempt."""

    def __init__(
        self,
        held_claim: HeldClaim,
        loop: ProviderLoop,
        settings: Settings,
        persist: Persist,
    ):
        self._held_claim = held_claim
        self._loop = loop
        self._settings = settings
        self._persist = persist

    def ask(self, prompt: Prompt, *, step: str) -> Answered:
        """Make the call, or poll the response that an earlier attempt requested for this step, and return the answer.

        Raises ProviderError, Stopped or AttemptTimedOut, which the row records too; LaneClosed; WaitsAtProvider.
        """
        begun = self._begin(step)
        if isinstance(begun, OpenResponse):
            call_id, answer = begun.call_id, self._poll_response(begun)
        else:
            fault_point("worker.call_recorded")
            call_id = begun
            start = self._start_response if self._settings.openai_background else self._request_answer
            answer = start(prompt, call_id)
        fault_point("worker.answered")
        return Answered(call_id, answer, report_of_answer(answer))

    def _begin(self, step: str) -> uuid.UUID | OpenResponse:
        """Return the response of this step that is still open at the provider, or the id of a new call."""
        claim = self._held_claim.claim
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
            open_response = calls.open_responses(session, claim.job_id).get(step)
            if open_response is not None:
                return open_response
            return calls.open_call(session, claim.job_id, claim.generation, call, call_id)

        call_id = uuid.uuid4()  # made outside of the work that is repeated when the answer to a commit is lost
        while True:
            self._held_claim.check()
            begun = self._persist(begin)
            if isinstance(begun, uuid.UUID | OpenResponse):
                return begun
            if begun is None:
                raise Stopped(StopReason.CANCEL)  # or the claim is gone: handing the job back finds out which
            if isinstance(begun, Closed):
                raise LaneClosed(call.lane, begun)
            if call.background:
                raise WaitsAtProvider(None)  # the running responses keep the lane full for minutes
            if self._held_claim.seconds_left < self._settings.provider_call_seconds:
                # This attempt has no time left for a whole call, so a later attempt makes it.
                raise LaneClosed(call.lane, Closed(LaneState.OPEN, FULL_LANE_SECONDS, None))
            self._held_claim.stopping.wait(random.uniform(0.5, 1.5) * FULL_LANE_SECONDS)

    def _request_answer(self, prompt: Prompt, call_id: uuid.UUID) -> Answer:
        return self._request(
            call_id,
            lambda progress: self._loop.submit(
                prompt, client_request_id=str(call_id), budget_seconds=self._budget_seconds, progress=progress
            ),
        )

    def _start_response(self, prompt: Prompt, call_id: uuid.UUID) -> Answer:
        """Start a background response and raise WaitsAtProvider. Return the answer if the server answers at once."""
        claim = self._held_claim.claim
        metadata = {"job": str(claim.job_id), "generation": str(claim.generation), "call": str(call_id)}
        started = self._request(
            call_id,
            lambda progress: self._loop.submit_start(
                prompt,
                client_request_id=str(call_id),
                metadata=metadata,
                budget_seconds=self._budget_seconds,
                progress=progress,
            ),
        )
        if isinstance(started, Answer):
            return started
        lane, response_id = self._settings.lane, started.response_id
        fault_point("worker.response_started")
        self._persist(lambda session: calls.note_response(session, call_id, response_id, lane))
        fault_point("worker.response_saved")
        self._persist(lambda session: lanes.record_success(session, lane, call_id, spread_seconds=LANE_SPREAD_SECONDS))
        raise WaitsAtProvider(poll_delay(0))

    def _poll_response(self, pending: OpenResponse) -> Answer:
        """Return the answer of a background response.

        Raises WaitsAtProvider while it is in progress, and also when only the poll failed, which says nothing about the
        response itself.
        """
        try:
            if self._loop.background is None:  # the site was switched to a provider that does not have this response
                raise ProviderError(Category.UNCERTAIN, "response_gone", sent=True, response_over=True)
            polled = self._in_flight(self._loop.submit_poll(pending.response_id, budget_seconds=self._budget_seconds))
        except ProviderError as error:
            if error.response_over:
                self._close(pending.call_id, report_of_error(error), error)
                raise
            failed = error
        else:
            if isinstance(polled, Answer):
                return polled
            raise WaitsAtProvider(poll_delay(pending.age_seconds))
        log.warning("response.look_failed", call=pending.call_id.hex, category=failed.category, code=failed.code)
        closed = self._persist(lambda session: mark_lane(session, self._settings.lane, failed, None))
        if closed is not None:
            raise LaneClosed(self._settings.lane, closed)
        raise WaitsAtProvider(poll_delay(pending.age_seconds))

    @property
    def _budget_seconds(self) -> float:
        return min(self._settings.provider_call_seconds, max(0.1, self._held_claim.seconds_left))

    def _request(self, call_id: uuid.UUID, begin: Callable[[CallProgress], Future[T]]) -> T:
        """Send a request and return its result. Whatever goes wrong is recorded in the row of the call, and raised."""
        progress = CallProgress()
        try:
            return self._in_flight(begin(progress))
        except ProviderError as error:
            self._close(call_id, report_of_error(error), error)
            self._wait_if_stopped(error)
            raise
        except Stopped as stopped:
            cancelled = stopped.reason is StopReason.CANCEL
            self._close(call_id, cut_off(progress, CallOutcome.CANCELLED if cancelled else CallOutcome.UNKNOWN))
            raise
        except BaseException:
            self._close(call_id, cut_off(progress, CallOutcome.UNKNOWN))
            raise

    def _wait_if_stopped(self, error: ProviderError) -> None:
        """Raise LaneClosed for a failure that concerns every job alike, such as a refused key: they all wait."""
        if error.category in STOPS_THE_LANE:
            closed = self._persist(lambda session: lanes.check(session, self._settings.lane))
            if closed is not None and closed.state is LaneState.STOPPED:
                raise LaneClosed(self._settings.lane, closed)

    def _in_flight(self, future: Future[T]) -> T:
        """Wait for the future, and cancel it when the claim is stopped or the wait is broken off."""
        self._held_claim.at_stop(future.cancel)
        try:
            return self._await(future)
        finally:
            future.cancel()  # no effect once it is done; otherwise it must not run on unnoticed

    def _await(self, future: Future[T]) -> T:
        while True:
            left = self._held_claim.seconds_left
            if left <= 0:
                raise AttemptTimedOut
            try:
                return future.result(min(LOOK_AROUND_SECONDS, left))
            except NotYet:
                continue
            except CancelledError:
                self._held_claim.check()
                raise AttemptTimedOut from None  # the claim was not stopped, so the provider loop itself has ended

    def _close(self, call_id: uuid.UUID, report: CallReport, error: ProviderError | None = None) -> None:
        def close(session: Session) -> None:
            # Closed before: the answer to that commit was lost, and the lane was marked with it.
            if calls.close_call(session, call_id, report) and error is not None:
                mark_lane(session, self._settings.lane, error, call_id)

        self._persist(close)
