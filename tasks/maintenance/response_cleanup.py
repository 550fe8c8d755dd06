"""Cancels responses at the provider that are not needed any more: the open responses of finished and deleted jobs.

If the site does not let the provider keep responses, those that are saved here are deleted there too. Runs in every
worker; any number may run at once, since cancelling and deleting twice is harmless. Failures are tried again at the
next sweep, and given up after a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.call_reports import report_of_answer, report_of_error
from tasks.database import Transaction
from tasks.ledger.calls import calls, responses
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.calls.responses import KeptResponse
from tasks.ledger.states import CallOutcome
from tasks.provider import Answer, ProviderError
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings

log = structlog.get_logger()
T = TypeVar("T")

BATCH = 50
EXCHANGE_SECONDS = 10.0
GIVE_UP_WITHDRAWING_SECONDS = 900.0  # meanwhile the response counts against the limit of the lane
GIVE_UP_DELETING_SECONDS = 86_400.0
MAX_PAUSE_SECONDS = 10.0  # a cancel must not wait long behind another that fails
MAX_REST_SECONDS = 300.0  # a deletion is not urgent, and some servers do not support it


class ResponseCleanup:
    """Sweeps over the responses at the provider that no job waits for."""

    def __init__(self, transaction: Transaction, settings: Settings, provider: ProviderLoop) -> None:
        self._transaction = transaction
        self._lane = settings.lane
        self._sweep_seconds = settings.sweep_seconds
        self._budget_seconds = min(EXCHANGE_SECONDS, settings.provider_call_seconds)
        self._keep = settings.openai_store_after
        self._provider = provider
        self._failures = 0
        self._rest_seconds = 0.0
        self._no_deletion_before = 0.0

    def step(self) -> int:
        """Make one sweep and return how many responses were closed or deleted; 0 without a background mode."""
        self._failures = 0
        with self._transaction() as session:
            lane = self._lane
            lost = responses.give_up_cancelling(session, lane=lane, after_seconds=GIVE_UP_WITHDRAWING_SECONDS)
            left = responses.give_up_deleting_left(session, lane=lane, after_seconds=GIVE_UP_DELETING_SECONDS)
        if lost or left:
            log.warning("withdrawals.given_up", not_withdrawn=lost, not_deleted=left)
        if self._provider.background is None:
            return 0
        return self._cancel_finished() + self._clear_left_behind() + (0 if self._keep else self._delete_saved())

    def _cancel_finished(self) -> int:
        with self._transaction() as session:
            found = responses.to_cancel(session, lane=self._lane, limit=BATCH)
        count = 0
        for kept, answer in self._each(found, self._submit_cancel):
            if isinstance(answer, ProviderError):
                if not answer.response_over:
                    self._failed("withdraw", answer)
                    continue
                report = report_of_error(answer)
            elif answer is None:
                report = CallReport(CallOutcome.CANCELLED)
            else:
                report = report_of_answer(answer)  # it completed first: billed, but not needed any more
            assert kept.call_id is not None
            with self._transaction() as session:
                closed = calls.close_call(session, kept.call_id, report)
            log.info("response.withdrawn", call=kept.call_id.hex, outcome=str(report.outcome))
            count += closed
        return count

    def _clear_left_behind(self) -> int:
        """Cancel and delete the responses of deleted jobs, whatever the site otherwise lets the provider keep."""
        with self._transaction() as session:
            found = responses.left_behind(session, lane=self._lane, limit=BATCH)
        cancelled = []
        for kept, answer in self._each(found, self._submit_cancel):
            if isinstance(answer, ProviderError) and not answer.response_over:
                self._failed("withdraw", answer)
            else:
                cancelled.append(kept)
        return self._delete(cancelled)

    def _delete_saved(self) -> int:
        with self._transaction() as session:
            found = responses.to_delete(
                session, lane=self._lane, younger_than_seconds=GIVE_UP_DELETING_SECONDS, limit=BATCH
            )
        return self._delete(found)

    def _delete(self, found: Sequence[KeptResponse]) -> int:
        if time.monotonic() < self._no_deletion_before:
            return 0
        deleted = failed = 0
        for kept, answer in self._each(found, self._submit_delete):
            if isinstance(answer, ProviderError):
                self._failed("delete", answer)
                failed += 1
                continue
            with self._transaction() as session:
                if kept.call_id is None:
                    responses.note_left_deleted(session, kept.response_id)
                else:
                    responses.note_deleted(session, kept.call_id)
            deleted += 1
        self._rest_seconds = min(MAX_REST_SECONDS, 2 * max(self._rest_seconds, self._sweep_seconds)) if failed else 0
        self._no_deletion_before = time.monotonic() + self._rest_seconds
        return deleted

    def _submit_cancel(self, kept: KeptResponse) -> Future[Answer | None]:
        return self._provider.submit_cancel(kept.response_id, budget_seconds=self._budget_seconds)

    def _submit_delete(self, kept: KeptResponse) -> Future[None]:
        return self._provider.submit_delete(kept.response_id, budget_seconds=self._budget_seconds)

    def _each(
        self, found: Sequence[KeptResponse], submit: Callable[[KeptResponse], Future[T]]
    ) -> list[tuple[KeptResponse, T | ProviderError]]:
        """Send a request about each response, all at once, and return what came back.

        Requests that get no answer in time are left to the next sweep.
        """
        results: list[tuple[KeptResponse, T | ProviderError]] = []
        try:
            futures = [(kept, submit(kept)) for kept in found]
        except ProviderError:
            return results  # the loop is closed, so the process is about to end
        for kept, future in futures:
            try:
                results.append((kept, future.result(2 * self._budget_seconds)))
            except ProviderError as error:
                results.append((kept, error))
            except (NotYet, CancelledError):
                future.cancel()
        return results

    def _failed(self, what: str, error: ProviderError) -> None:
        if error.code != "still_running":
            self._failures += 1
        log.warning("response.left_to_the_next_sweep", what=what, category=error.category, code=error.code)

    def run(self, stopping: threading.Event, is_due: Callable[[], bool] = lambda: True) -> None:
        """Sweep until `stopping` is set, less often while the provider refuses, and not while nothing `is_due`."""
        pause = self._sweep_seconds
        while not stopping.wait(pause):
            try:
                if is_due():
                    self.step()
            except SQLAlchemyError as error:
                log.warning("withdrawals.wait", error=type(error).__name__)
            pause = min(MAX_PAUSE_SECONDS, 2 * pause) if self._failures else self._sweep_seconds
