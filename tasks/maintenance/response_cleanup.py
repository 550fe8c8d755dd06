"""Takes back at the provider what nobody here waits for any more: the open responses of finished and deleted jobs.

Where the site does not let the provider keep responses, those that are saved here are deleted there too. Runs in every
worker; any number may run at once, since cancelling and deleting twice is fine. What fails is tried at the next sweep,
and given up after a time.
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
GIVE_UP_WITHDRAWING_SECONDS = 900.0  # meanwhile it takes one of the places of the lane
GIVE_UP_DELETING_SECONDS = 86_400.0
LONGEST_PAUSE_SECONDS = 10.0  # a cancel is not to wait long behind one that fails
LONGEST_REST_SECONDS = 300.0  # a deletion is not urgent, and some servers know none


class Withdrawals:
    """The sweep over what the provider has and nobody waits for."""

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
        """One sweep. How many responses are settled; none where the provider cannot be asked about them."""
        self._failures = 0
        with self._transaction() as session:
            lane = self._lane
            lost = responses.give_up_cancelling(session, lane=lane, after_seconds=GIVE_UP_WITHDRAWING_SECONDS)
            left = responses.give_up_deleting_left(session, lane=lane, after_seconds=GIVE_UP_DELETING_SECONDS)
        if lost or left:
            log.warning("withdrawals.given_up", not_withdrawn=lost, not_deleted=left)
        if self._provider.background is None:
            return 0
        return self._withdraw_finished() + self._clear_left_behind() + (0 if self._keep else self._delete_saved())

    def _withdraw_finished(self) -> int:
        with self._transaction() as session:
            found = responses.to_cancel(session, lane=self._lane, limit=BATCH)
        settled = 0
        for kept, answer in self._each(found, self._submit_withdraw):
            if isinstance(answer, ProviderError):
                if not answer.response_over:
                    self._failed("withdraw", answer)
                    continue
                report = report_of_error(answer)
            elif answer is None:
                report = CallReport(CallOutcome.CANCELLED)
            else:
                report = report_of_answer(answer)  # it was faster; billed, and not wanted any more
            assert kept.call_id is not None
            with self._transaction() as session:
                closed = calls.close_call(session, kept.call_id, report)
            log.info("response.withdrawn", call=kept.call_id.hex, outcome=str(report.outcome))
            settled += closed
        return settled

    def _clear_left_behind(self) -> int:
        """Its job was deleted, so what the provider has of it goes too, whatever the site lets it keep."""
        with self._transaction() as session:
            found = responses.left_behind(session, lane=self._lane, limit=BATCH)
        stopped = []
        for kept, answer in self._each(found, self._submit_withdraw):
            if isinstance(answer, ProviderError) and not answer.response_over:
                self._failed("withdraw", answer)
            else:
                stopped.append(kept)
        return self._delete(stopped)

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
                    responses.settle_left(session, kept.response_id)
                else:
                    responses.note_deleted(session, kept.call_id)
            deleted += 1
        self._rest_seconds = (
            min(LONGEST_REST_SECONDS, 2 * max(self._rest_seconds, self._sweep_seconds)) if failed else 0
        )
        self._no_deletion_before = time.monotonic() + self._rest_seconds
        return deleted

    def _submit_withdraw(self, kept: KeptResponse) -> Future[Answer | None]:
        return self._provider.submit_withdraw(kept.response_id, budget_seconds=self._budget_seconds)

    def _submit_delete(self, kept: KeptResponse) -> Future[None]:
        return self._provider.submit_delete(kept.response_id, budget_seconds=self._budget_seconds)

    def _each(
        self, found: Sequence[KeptResponse], submit: Callable[[KeptResponse], Future[T]]
    ) -> list[tuple[KeptResponse, T | ProviderError]]:
        """Exchange something about each of them, all at once. What found no place in time is left to the next sweep."""
        settled: list[tuple[KeptResponse, T | ProviderError]] = []
        try:
            futures = [(kept, submit(kept)) for kept in found]
        except ProviderError:
            return settled  # the loop is closed, so the process is about to end
        for kept, future in futures:
            try:
                settled.append((kept, future.result(2 * self._budget_seconds)))
            except ProviderError as error:
                settled.append((kept, error))
            except (NotYet, CancelledError):
                future.cancel()
        return settled

    def _failed(self, what: str, error: ProviderError) -> None:
        if error.code != "still_running":
            self._failures += 1
        log.warning("response.left_to_the_next_sweep", what=what, category=error.category, code=error.code)

    def run(self, stopping: threading.Event) -> None:
        """Sweep until told to stop; more seldom while the provider refuses."""
        pause = self._sweep_seconds
        while not stopping.wait(pause):
            try:
                self.step()
            except SQLAlchemyError as error:
                log.warning("withdrawals.wait", error=type(error).__name__)
            pause = min(LONGEST_PAUSE_SECONDS, 2 * pause) if self._failures else self._sweep_seconds
