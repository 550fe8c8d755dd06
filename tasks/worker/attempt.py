"""Runs one attempt at a job under its claim: read the document, call the provider, and save the result or the failure.

Each paid or slow step is checkpointed, so that a later attempt loads its answer instead of repeating it. No database
connection is held while a document is read or a call is in flight.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from tasks.database import Database, is_out_of_reach
from tasks.fault_points import fault_point
from tasks.intake import IntakePool, Limits, ReadCancelled
from tasks.ledger.calls import calls
from tasks.ledger.errors import AttemptTimedOut, Category, ClaimLost, JobError
from tasks.ledger.jobs import checkpoints, failures, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.models import Document
from tasks.ledger.reports import job_views
from tasks.ledger.states import READ_STEP, Outcome, State
from tasks.observability import sentry
from tasks.observability.logs import log_fields
from tasks.provider import may_have_been_billed
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker import retry_policy
from tasks.worker.endings import UNEXPECTED, Failed, Released, ending_of
from tasks.worker.heartbeat import HeldClaim
from tasks.worker.poll_backoff import before_the_deadline, poll_delay
from tasks.worker.steps import Steps
from tasks.workflows import WORKFLOWS, Workflow

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True)
class Tools:
    """Holds the services that all attempts of a process share."""

    settings: Settings
    database: Database
    provider: ProviderLoop
    intake: IntakePool


def work_on(held_claim: HeldClaim, tools: Tools) -> State | None:
    """Make one attempt, record how it ended, and return the job's new state; None if the claim was lost meanwhile.

    Raises only errors that mean the database cannot be reached: then the lease brings the job back.
    """
    attempt = AttemptRunner(held_claim, tools)
    attempt_log = log.bind(job=held_claim.claim.job_id.hex, generation=held_claim.claim.generation)
    attempt_log.info("attempt.began", attempt=held_claim.claim.attempt)
    try:
        state = attempt.run()
    except ClaimLost:
        attempt_log.warning("attempt.claim_lost")
        return None
    attempt_log.info("attempt.ended", state=str(state))
    return state


class AttemptRunner:
    """Runs the attempt that belongs to one claim."""

    def __init__(self, held_claim: HeldClaim, tools: Tools) -> None:
        self.held_claim = held_claim
        self.claim = held_claim.claim
        self.tools = tools

    def run(self) -> State:
        """Succeed, or record why the attempt did not, and return the job's new state. Raises ClaimLost."""
        try:
            return self._succeed()
        except (Exception, AttemptTimedOut) as error:
            if is_out_of_reach(error):
                raise
            ending = ending_of(error)
            if ending is UNEXPECTED:
                log.error("attempt.unexpected", job=self.claim.job_id.hex, **log_fields(error))
                sentry.report(error, "attempt.unexpected", job=self.claim.job_id.hex, generation=self.claim.generation)
        return self._hand_back(ending) if isinstance(ending, Released) else self._end(ending)

    def _succeed(self) -> State:
        fault_point("worker.claimed")
        job, saved = self._persist(
            lambda session: (
                job_views.any_job(session, self.claim.job_id),
                checkpoints.load(session, self.claim.job_id),
            )
        )
        if job is None:
            raise ClaimLost
        workflow = WORKFLOWS[job.workflow]
        read = saved.pop(READ_STEP, None) or self._read(workflow)
        self.held_claim.after_reading()
        steps = Steps(self.held_claim, self.tools.provider, self.tools.settings, self._persist, saved)
        finished = steps.run(workflow, read.text, job.options)
        facts = {**steps.facts, **finished.facts}
        self.held_claim.check()

        def save(session: Session) -> State:
            state = transitions.succeed(session, self.claim, text=finished.text, facts=facts)
            fault_point("worker.before_commit")
            return state

        state = self._persist(save)
        fault_point("worker.succeeded")
        return state

    def _read(self, workflow: Workflow) -> SavedStep:
        def load(session: Session) -> Document | None:
            transitions.progress(session, self.claim, step=READ_STEP, done=0, total=0)
            return job_views.original_of(session, self.claim.job_id, None)

        original = self._persist(load)
        if original is None or original.content is None:
            raise JobError(Category.INVALID_DOCUMENT, "deleted")
        limits = Limits(
            max_chars=self.tools.settings.max_document_chars,
            wall_seconds=min(Limits.wall_seconds, max(1.0, self.held_claim.seconds_left)),
        )
        try:
            began = time.monotonic()
            reading = self.tools.intake.read(
                original.content,
                original.filename,
                limits,
                self.held_claim.stopping,
                account=original.account_id,
                wait_seconds=self.tools.settings.reader_wait_seconds,
                begins=lambda: self.held_claim.extend(time.monotonic() - began),
            )
        except ReadCancelled:
            self.held_claim.check()
            raise
        fault_point("worker.read")
        read = SavedStep(reading.text, {**reading.facts, "kind": str(reading.kind)})
        self._persist(
            lambda session: checkpoints.save(
                session, self.claim, READ_STEP, read, next_step=workflow.step, done=0, total=1
            )
        )
        fault_point("worker.read_saved")
        return read

    def _hand_back(self, ending: Released) -> State:
        """Give the job back, uncounted. A job with a cancel request ends as cancelled."""

        def release(session: Session) -> State:
            return transitions.release(
                session,
                self.claim,
                reason=ending.reason,
                interrupted=ending.interrupted,
                wait_seconds=self._wait_seconds(session, ending),
                behind=ending.behind,
            )

        return self._persist(release)

    def _wait_seconds(self, session: Session, ending: Released) -> float:
        """Return how long the job waits until its next delivery, at most until shortly before its deadline."""
        if ending.wait_seconds == 0:
            return 0
        job = job_views.any_job(session, self.claim.job_id)
        if job is None:
            raise ClaimLost
        seconds = ending.wait_seconds
        if seconds is None:
            age = (job.now - (job.started_at or job.now)).total_seconds()
            seconds = random.uniform(0.5, 1.0) * poll_delay(age)
        return before_the_deadline(seconds, (job.deadline_at - job.now).total_seconds())

    def _end(self, ending: Failed) -> State:
        error = ending.error
        log.warning("attempt.failed", job=self.claim.job_id.hex, category=error.category, code=error.code)
        return self._persist(lambda session: self._decide_and_end(session, error, ending.outcome))

    def _decide_and_end(self, session: Session, error: JobError, outcome: Outcome | None) -> State:
        deadline, now = failures.deadline_of(session, self.claim.job_id)
        counts = may_have_been_billed(error)
        decision = retry_policy.decide(
            retry_policy.Facts(
                category=error.category,
                code=error.code,
                counts=counts,
                attempts=self.claim.attempt if counts else self.claim.attempt - 1,
                max_attempts=self.claim.max_attempts,
                failures=1 + failures.failures_in_a_row(session, self.claim.job_id),
                lost_calls=calls.lost_calls(session, self.claim.job_id),
                deadline=deadline,
                now=now,
                attempt_seconds=self.tools.settings.attempt_seconds,
                retry_after_seconds=getattr(error, "retry_after_seconds", None),
            )
        )
        if isinstance(decision, retry_policy.RetryIn):
            return transitions.retry_later(
                session,
                self.claim,
                category=error.category,
                code=error.code,
                delay_seconds=decision.seconds,
                counts=counts,
                outcome=outcome or Outcome.RETRY,
            )
        return transitions.fail(
            session, self.claim, category=decision.category, code=decision.code, outcome=outcome or Outcome.FAILED
        )

    def _persist(self, work: Callable[[Session], T]) -> T:
        """Run `work` in a transaction, and repeat it while the database is away and the reservation still stands."""
        return self.tools.database.persist(work, for_seconds=self.held_claim.reserved_until - time.monotonic())
