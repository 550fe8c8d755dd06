"""One attempt at a job, under its claim: read the document, ask the provider, save the result, or say how it ended.

Each paid or slow step is checkpointed, so that a later attempt recalls it instead of doing it again. No database
connection is held while a document is read or a call is in the air.
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
from tasks.intake import IntakePool, Limits, ReadAbandoned
from tasks.ledger.calls import calls
from tasks.ledger.errors import AttemptTimedOut, CancelAsked, Category, ClaimLost, JobError
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.reports import job_views
from tasks.ledger.states import Outcome, State
from tasks.observability import sentry
from tasks.observability.logs import log_fields
from tasks.provider.loop import ProviderLoop
from tasks.settings import Settings
from tasks.worker import retry_policy
from tasks.worker.heartbeat import HeldClaim, Stopped, StopReason
from tasks.worker.poll_backoff import before_the_deadline, poll_delay
from tasks.worker.provider_call import LaneClosed, WaitsAtProvider
from tasks.worker.steps import OutOfTime, Steps
from tasks.workflows import WORKFLOWS

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True)
class Tools:
    """What every attempt of a process works with."""

    settings: Settings
    database: Database
    provider: ProviderLoop
    intake: IntakePool


def work_on(held: HeldClaim, tools: Tools) -> State | None:
    """Make one attempt and record how it ended. The job's new state; None when the claim was lost on the way.

    Raises only what says that the database cannot be reached: then the lease brings the job back.
    """
    attempt = AttemptRunner(held, tools)
    say = log.bind(job=held.claim.job_id.hex, generation=held.claim.generation)
    say.info("attempt.began", attempt=held.claim.attempt)
    try:
        state = attempt.run()
    except ClaimLost:
        say.warning("attempt.claim_lost")
        return None
    say.info("attempt.ended", state=str(state))
    return state


class AttemptRunner:
    """The work of one claim."""

    def __init__(self, held: HeldClaim, tools: Tools) -> None:
        self.held = held
        self.claim = held.claim
        self.tools = tools

    def run(self) -> State:
        """Succeed, or record why not. The job's new state. Raises ClaimLost."""
        try:
            return self._succeed()
        except Stopped as stopped:
            return self._hand_back(stopped.reason)
        except CancelAsked:
            return self._hand_back(StopReason.CANCEL)
        except LaneClosed as closed:
            return self._wait_for_lane(closed)
        except WaitsAtProvider as waits:
            return self._wait_at_provider(waits.seconds)
        except OutOfTime:
            return self._go_on_later()
        except JobError as error:
            return self._end(error)
        except AttemptTimedOut:
            return self._end(JobError(Category.TIMEOUT, "attempt_budget"), Outcome.TIMED_OUT)
        except Exception as error:
            if is_out_of_reach(error):
                raise
            log.error("attempt.unexpected", job=self.claim.job_id.hex, **log_fields(error))
            sentry.report(error, "attempt.unexpected", job=self.claim.job_id.hex, generation=self.claim.generation)
            return self._end(JobError(Category.INTERNAL, "unexpected"))

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
        read = saved.pop("read", None) or self._read()
        steps = Steps(self.held, self.tools.provider, self.tools.settings, self._persist, saved)
        finished = steps.work_off(WORKFLOWS[job.workflow], read.text, job.options)
        facts = {**steps.facts, **finished.facts}
        self.held.check()

        def save(session: Session) -> State:
            state = transitions.succeed(session, self.claim, text=finished.text, facts=facts)
            fault_point("worker.before_commit")
            return state

        state = self._persist(save)
        fault_point("worker.succeeded")
        return state

    def _read(self) -> SavedStep:
        self._persist(lambda session: transitions.progress(session, self.claim, step="read", done=0, total=0))
        original = self._persist(lambda session: job_views.original_of(session, self.claim.job_id, None))
        if original is None or original.content is None:
            raise JobError(Category.INVALID_DOCUMENT, "deleted")
        limits = Limits(
            max_chars=self.tools.settings.max_document_chars,
            wall_seconds=min(Limits.wall_seconds, max(1.0, self.held.seconds_left)),
        )
        try:
            reading = self.tools.intake.read(original.content, original.filename, limits, self.held.stopping)
        except ReadAbandoned:
            self.held.check()
            raise
        fault_point("worker.read")
        read = SavedStep(reading.text, {**reading.facts, "kind": str(reading.kind)})
        self._persist(
            lambda session: checkpoints.save(session, self.claim, "read", read, next_step="summarise", done=0, total=1)
        )
        fault_point("worker.read_saved")
        return read

    def _hand_back(self, reason: StopReason) -> State:
        """Give the job back, uncounted. One whose cancellation was asked for ends as cancelled."""
        return self._persist(
            lambda session: transitions.release(
                session, self.claim, reason=str(reason), interrupted=reason is StopReason.SHUTDOWN
            )
        )

    def _go_on_later(self) -> State:
        """Give the job back, uncounted and not interrupted: what was done is saved, and the next attempt goes on."""
        return self._persist(
            lambda session: transitions.release(session, self.claim, reason="continue", interrupted=False)
        )

    def _wait_for_lane(self, closed: LaneClosed) -> State:
        """Give the job back, uncounted, to be owed again when the provider may be asked."""
        return self._persist(
            lambda session: transitions.release(
                session, self.claim, reason="lane", interrupted=False, behind=(closed.lane, closed.closed)
            )
        )

    def _wait_at_provider(self, wait_seconds: float | None) -> State:
        """Give the job back, uncounted, to be owed again when the provider is to be asked about it.

        None: it found no place, and tries again after a wait that grows with the job's age.
        """

        def release(session: Session) -> State:
            job = job_views.any_job(session, self.claim.job_id)
            if job is None:
                raise ClaimLost
            if wait_seconds is None:
                age = (job.now - (job.started_at or job.now)).total_seconds()
                seconds, reason = random.uniform(0.5, 1.0) * poll_delay(age), "no_place"
            else:
                seconds, reason = wait_seconds, "waits_at_provider"
            seconds = before_the_deadline(seconds, (job.deadline_at - job.now).total_seconds())
            return transitions.release(session, self.claim, reason=reason, interrupted=False, wait_seconds=seconds)

        return self._persist(release)

    def _end(self, error: JobError, outcome: Outcome | None = None) -> State:
        log.warning("attempt.failed", job=self.claim.job_id.hex, category=error.category, code=error.code)
        return self._persist(lambda session: self._decide_and_end(session, error, outcome))

    def _decide_and_end(self, session: Session, error: JobError, outcome: Outcome | None) -> State:
        deadline, now = transitions.deadline_of(session, self.claim.job_id)
        decision = retry_policy.decide(
            retry_policy.Facts(
                category=error.category,
                code=error.code,
                attempts=self.claim.attempt,
                max_attempts=self.claim.max_attempts,
                unknown_calls=calls.unknown_calls(session, self.claim.job_id),
                deadline=deadline,
                now=now,
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
                outcome=outcome or Outcome.RETRY,
            )
        return transitions.fail(
            session, self.claim, category=decision.category, code=decision.code, outcome=outcome or Outcome.FAILED
        )

    def _persist(self, work: Callable[[Session], T]) -> T:
        """Everything outlives a short absence of the database: it is tried again while the reservation stands."""
        return self.tools.database.persist(work, for_seconds=self.held.reserved_until - time.monotonic())
