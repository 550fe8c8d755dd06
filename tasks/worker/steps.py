"""Runs the steps of a workflow, several at a time, and saves each answer under the claim as soon as it arrives.

After a crash past part 7 of 9 only parts 8 and 9 are paid for. When the attempt's time runs out between two steps, the
job is handed back, not counted, and continues with its next delivery; the job's deadline still holds.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace

from sqlalchemy.orm import Session

from tasks.database import Persist
from tasks.fault_points import fault_point
from tasks.ledger.calls import calls, lanes
from tasks.ledger.errors import CancelRequested, ClaimLost
from tasks.ledger.jobs import checkpoints
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.states import SAVE_STEP
from tasks.provider import Prompt
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.endings import OutOfTime, WaitsAtProvider
from tasks.worker.heartbeat import HeldClaim
from tasks.worker.poll_backoff import poll_delay
from tasks.worker.provider_call import LOOK_AROUND_SECONDS, Answered, RecordedCall
from tasks.workflows import Finished, NextSteps, Step, Workflow
from tasks.workflows.sanitize import sanitize

SHORTER = " The last answer was too long and was cut off. Write at most half as much."


class Steps:
    """Runs the steps of one job under one claim."""

    def __init__(
        self,
        held_claim: HeldClaim,
        provider: ProviderLoop,
        settings: Settings,
        persist: Persist,
        saved: Mapping[str, SavedStep],
    ) -> None:
        self._held_claim = held_claim
        self._loop = provider
        self._settings = settings
        self._persist = persist
        self._call = RecordedCall(held_claim, provider, settings, persist)
        self._saved = dict(saved)
        self._saving = threading.Lock()
        self._done_here = 0
        self._waits_here = False

    @property
    def facts(self) -> dict[str, object]:
        """Return the provider and model of the answers, and whether any answer was cut off."""
        made = [step.facts for step in self._saved.values() if "provider" in step.facts]
        facts = {key: made[-1][key] for key in ("label", "provider", "model")} if made else {}
        return {**facts, **({"cut_off": True} if any(fact.get("cut_off") for fact in made) else {})}

    def run(self, workflow: Workflow, text: str, options: Mapping[str, str]) -> Finished:
        """Run all steps of the workflow and return its result.

        Raises JobError, Stopped, LaneClosed, WaitsAtProvider, OutOfTime or ClaimLost.
        """
        while True:
            answers = {name: step.text for name, step in self._saved.items()}
            outcome = workflow.next(text, options, answers, self._settings.call_chars)
            if isinstance(outcome, Finished):
                return outcome
            self._run_round(outcome, workflow.step)

    def _run_round(self, next_steps: NextSteps, shown_step: str) -> None:
        """Run these steps, at most `parts_at_once` at a time. In background mode the rest run in the next round.

        A response that is in progress at the provider blocks no thread, but it counts against `parts_at_once`. So
        these are polled first, and new steps get only what is left. Then the shortest wait is raised.
        """
        steps = next_steps.steps
        counted = _Count(next_steps.done, next_steps.total, len(steps), shown_step)
        if not self._settings.openai_background:
            self._at_once(steps, counted)
            return
        pending = self._persist(lambda session: calls.open_responses(session, self._held_claim.claim.job_id))
        waits = self._at_once([step for step in steps if step.name in pending], counted)
        new = [step for step in steps if step.name not in pending]
        waits += self._at_once(new[: max(0, self._settings.parts_at_once - len(waits))], counted)
        if waits:
            raise min(waits, key=lambda wait: math.inf if wait.seconds is None else wait.seconds)

    def _at_once(self, steps: Sequence[Step], counted: _Count) -> list[WaitsAtProvider]:
        """Run these steps, several at a time, and return the waits of those that are not finished.

        The first error is raised after the steps in flight have ended and are saved.
        """
        if not steps:
            return []
        if len(steps) == 1:
            try:
                self._run_step(steps[0], counted)
            except WaitsAtProvider as waits:
                return [waits]
            return []
        threads = ThreadPoolExecutor(min(len(steps), self._settings.parts_at_once), thread_name_prefix="part")
        try:
            # Each step runs in a copy of this context, so that its log lines carry the job too.
            running = {threads.submit(copy_context().run, self._run_step, step, counted) for step in steps}
            return self._collect(running)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _collect(self, running: set[Future[None]]) -> list[WaitsAtProvider]:
        first: BaseException | None = None
        waits: list[WaitsAtProvider] = []
        while running:
            ended, running = wait(running, LOOK_AROUND_SECONDS, return_when="FIRST_COMPLETED")
            for future in ended:
                error = None if future.cancelled() else future.exception()
                if isinstance(error, WaitsAtProvider):
                    waits.append(error)
                elif error is not None and first is None:
                    first = error
                    for other in running:
                        other.cancel()  # cancels only what has not begun; requests in flight are paid for
        if first is not None:
            raise first
        return waits

    def _run_step(self, step: Step, counted: _Count) -> None:
        self._held_claim.check()
        if self._held_claim.seconds_left < self._settings.provider_call_seconds:
            if self._done_here:
                raise OutOfTime
            if self._waits_here:
                raise WaitsAtProvider(poll_delay(0))
        again = self._persist(lambda session: calls.was_cut_off(session, self._held_claim.claim.job_id, step.name))
        answered = self._ask(shorter(step.prompt) if again else step.prompt, step)
        if (
            answered.answer.cut_off
            and not again
            and self._held_claim.seconds_left > self._settings.provider_call_seconds
        ):
            self._persist(lambda session: calls.close_call(session, answered.call_id, answered.report))
            answered = self._ask(shorter(step.prompt), step)
        self._save(step, answered, counted)
        fault_point("worker.answer_saved")

    def _ask(self, prompt: Prompt, step: Step) -> Answered:
        try:
            return self._call.ask(prompt, step=step.name)
        except WaitsAtProvider:
            self._waits_here = True
            raise

    def _save(self, step: Step, answered: Answered, counted: _Count) -> None:
        provider = self._loop.provider
        facts: dict[str, object] = {
            "label": provider.label,
            "provider": provider.name,
            "model": answered.answer.model,
        }
        if answered.answer.cut_off:
            facts["cut_off"] = True
        saved = SavedStep(sanitize(answered.answer.text, step.prompt.document), facts)

        def save(session: Session) -> None:
            calls.close_call(session, answered.call_id, answered.report)
            lanes.record_success(session, self._settings.lane, answered.call_id, spread_seconds=LANE_SPREAD_SECONDS)
            next_step = counted.shown_step if counted.left > 1 else SAVE_STEP
            done = min(counted.done + 1, counted.total)
            checkpoints.save(
                session, self._held_claim.claim, step.name, saved, next_step=next_step, done=done, total=counted.total
            )

        with self._saving:  # one at a time, so that the shown progress only grows
            try:
                self._persist(save)
            except (CancelRequested, ClaimLost):
                # The answer is not needed any more, but the call and its cost must still be recorded.
                self._persist(lambda session: calls.close_call(session, answered.call_id, answered.report))
                raise
            counted.done, counted.left = counted.done + 1, counted.left - 1
            self._saved[step.name] = saved
            self._done_here += 1


class _Count:
    """Counts the parts that are done, all parts, and the steps of this round that are left.

    `shown_step` is the name that the job has while they run.
    """

    def __init__(self, done: int, total: int, left: int, shown_step: str) -> None:
        self.done = done
        self.total = total
        self.left = left
        self.shown_step = shown_step


def shorter(prompt: Prompt) -> Prompt:
    """Return the same prompt with a request for a shorter answer, which fits into the provider's limit."""
    return replace(prompt, instructions=prompt.instructions + SHORTER)
