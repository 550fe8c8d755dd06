"""Working off the steps of a workflow: several at a time, each answer saved under the claim as soon as it is there.

A crash after part 7 of 9 pays for parts 8 and 9 only. When the attempt's time runs out between two steps, the job is
handed back uncounted and goes on in a next delivery; the job's deadline still holds.
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
from tasks.ledger.errors import CancelAsked, ClaimLost
from tasks.ledger.jobs import checkpoints
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.provider import Prompt
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker.heartbeat import HeldClaim
from tasks.worker.poll_backoff import poll_delay
from tasks.worker.provider_call import LOOK_AROUND_SECONDS, Answered, RecordedCall, WaitsAtProvider
from tasks.workflows import Finished, Step, Workflow
from tasks.workflows.sanitize import tidy

SHORTER = " The last answer was too long and was cut off. Write at most half as much."


class OutOfTime(Exception):
    """The attempt's time is over, and something of the job was done in it: another attempt goes on from there."""


class Steps:
    """The steps of one job, under one claim."""

    def __init__(
        self,
        held: HeldClaim,
        provider: ProviderLoop,
        settings: Settings,
        persist: Persist,
        saved: Mapping[str, SavedStep],
    ) -> None:
        self._held = held
        self._loop = provider
        self._settings = settings
        self._persist = persist
        self._call = RecordedCall(held, provider, settings, persist)
        self._saved = dict(saved)
        self._saving = threading.Lock()
        self._done_here = 0
        self._waits_here = False

    @property
    def facts(self) -> dict[str, object]:
        """Who made it, and whether one of its answers was cut off."""
        made = [step.facts for step in self._saved.values() if "provider" in step.facts]
        facts = {key: made[-1][key] for key in ("label", "provider", "model")} if made else {}
        return {**facts, **({"cut_off": True} if any(fact.get("cut_off") for fact in made) else {})}

    def work_off(self, workflow: Workflow, text: str, options: Mapping[str, str]) -> Finished:
        """Make every step there is to make. Raises JobError, Stopped, LaneClosed, WaitsAtProvider,
        OutOfTime, ClaimLost."""
        while True:
            answers = {name: step.text for name, step in self._saved.items()}
            outcome = workflow.next(text, options, answers, self._settings.call_chars)
            if isinstance(outcome, Finished):
                return outcome
            self._make(outcome.steps, done=outcome.done, total=outcome.total)

    def _make(self, steps: Sequence[Step], *, done: int, total: int) -> None:
        """Make these steps, or as many as one document may have in the air at once: what is left comes round again.

        Those that wait at the provider keep nobody, but each of them keeps its place: it is asked about first, and only
        free places are given to new ones. Then the shortest of their waits is raised.
        """
        counted = _Count(done, total, len(steps))
        if not self._settings.openai_background:
            self._at_once(steps, counted)
            return
        handed_over = self._persist(lambda session: calls.open_responses(session, self._held.claim.job_id))
        waits = self._at_once([step for step in steps if step.name in handed_over], counted)
        new = [step for step in steps if step.name not in handed_over]
        waits += self._at_once(new[: max(0, self._settings.parts_at_once - len(waits))], counted)
        if waits:
            raise min(waits, key=lambda wait: math.inf if wait.seconds is None else wait.seconds)

    def _at_once(self, steps: Sequence[Step], counted: _Count) -> list[WaitsAtProvider]:
        """Make these steps, several at a time, and give the waits of those that are not over.

        The first error is raised when those that were in the air have ended and are saved.
        """
        if not steps:
            return []
        if len(steps) == 1:
            try:
                self._one(steps[0], counted)
            except WaitsAtProvider as waits:
                return [waits]
            return []
        threads = ThreadPoolExecutor(min(len(steps), self._settings.parts_at_once), thread_name_prefix="part")
        try:
            # Each in a copy of our context, so that what it logs carries the job too.
            running = {threads.submit(copy_context().run, self._one, step, counted) for step in steps}
            return self._collect(running)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _collect(self, running: set[Future[None]]) -> list[WaitsAtProvider]:
        first: BaseException | None = None
        waits: list[WaitsAtProvider] = []
        while running:
            ended, running = wait(running, LOOK_AROUND_SECONDS, return_when="FIRST_COMPLETED")
            for one in ended:
                error = None if one.cancelled() else one.exception()
                if isinstance(error, WaitsAtProvider):
                    waits.append(error)
                elif error is not None and first is None:
                    first = error
                    for other in running:
                        other.cancel()  # only what has not begun; what is in the air is paid for
        if first is not None:
            raise first
        return waits

    def _one(self, step: Step, counted: _Count) -> None:
        self._held.check()
        if self._held.seconds_left < self._settings.provider_call_seconds:
            if self._done_here:
                raise OutOfTime
            if self._waits_here:
                raise WaitsAtProvider(poll_delay(0))
        again = self._persist(lambda session: calls.was_cut_off(session, self._held.claim.job_id, step.name))
        answered = self._ask(shorter(step.prompt) if again else step.prompt, step)
        if answered.answer.cut_off and not again and self._held.seconds_left > self._settings.provider_call_seconds:
            self._persist(lambda session: calls.close_call(session, answered.call_id, answered.report))
            answered = self._ask(shorter(step.prompt), step)
        self._keep(step, answered, counted)
        fault_point("worker.answer_saved")

    def _ask(self, prompt: Prompt, step: Step) -> Answered:
        try:
            return self._call.ask(prompt, step=step.name)
        except WaitsAtProvider:
            self._waits_here = True
            raise

    def _keep(self, step: Step, answered: Answered, counted: _Count) -> None:
        provider = self._loop.provider
        facts: dict[str, object] = {
            "label": provider.label,
            "provider": provider.name,
            "model": answered.answer.model,
        }
        if answered.answer.cut_off:
            facts["cut_off"] = True
        saved = SavedStep(tidy(answered.answer.text, step.prompt.document), facts)

        def keep(session: Session) -> None:
            calls.close_call(session, answered.call_id, answered.report)
            lanes.answered(session, self._settings.lane, spread_seconds=LANE_SPREAD_SECONDS)
            next_step = "summarise" if counted.left > 1 else "save"
            done = min(counted.done + 1, counted.total)
            checkpoints.save(
                session, self._held.claim, step.name, saved, next_step=next_step, done=done, total=counted.total
            )

        with self._saving:  # one after the other, so that the shown progress only grows
            try:
                self._persist(keep)
            except (CancelAsked, ClaimLost):
                # Nobody wants the answer any more, but that it came, and what it cost, is a fact.
                self._persist(lambda session: calls.close_call(session, answered.call_id, answered.report))
                raise
            counted.done, counted.left = counted.done + 1, counted.left - 1
            self._saved[step.name] = saved
            self._done_here += 1


class _Count:
    """How many parts are done, of how many, and how many steps of this round are left."""

    def __init__(self, done: int, total: int, left: int) -> None:
        self.done = done
        self.total = total
        self.left = left


def shorter(prompt: Prompt) -> Prompt:
    """The same request once more, for an answer that fits into the provider's limit."""
    return replace(prompt, instructions=prompt.instructions + SHORTER)
