"""The ways in which an attempt ends without a result: from what happened to what is recorded, in one table.

raised            when                                               recorded as
Stopped           an owner cancelled, the worker shuts down, or the  released; a job to be cancelled ends as cancelled;
                  claim is lost                                      a shutdown counts as an interruption
CancelRequested   a checkpoint found that the owner had cancelled    released, and so cancelled
LaneClosed        no call can be made now                            released, behind the lane
WaitsAtProvider   the provider works on it, or all requests are used released, with a wait
NoReaderFree      other documents are being read                     released, with a short wait
OutOfTime         a step is saved, and the next one needs more time  released, to go on at once
JobError          the attempt failed                                 retried or failed, as `retry_policy` decides
AttemptTimedOut   the attempt's time is over                         the same, as a timeout
anything else     a fault of this program                            the same, as an internal error

A release does not count towards `max_attempts`. Two are not here: ClaimLost, after which nothing may be recorded, and
errors of a database that is out of reach, after which nothing can be: the lease brings the job back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tasks.intake import NoReaderFree
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.errors import AttemptTimedOut, CancelRequested, Category, JobError
from tasks.ledger.states import Outcome

NO_READER_SECONDS = 2.0


class StopReason(StrEnum):
    """Names the reasons for which work under a claim must stop."""

    CANCEL = "cancel"
    LOST = "lost"
    SHUTDOWN = "shutdown"


class Stopped(Exception):
    """Raised where work under a claim notices that it must stop."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class LaneClosed(Exception):
    """Raised when no call can be made now: the job must be handed back and wait for the lane."""

    def __init__(self, lane: str, closed: Closed) -> None:
        super().__init__(lane)
        self.lane = lane
        self.closed = closed


class WaitsAtProvider(Exception):
    """Raised when the job must be handed back, and the provider polled again after `seconds`.

    `seconds` None means that no request was sent, since PROVIDER_CONCURRENCY requests are in progress.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class OutOfTime(Exception):
    """Raised when the attempt's time is over and a step was saved in it: another attempt continues from there."""


@dataclass(frozen=True)
class Released:
    """The job is handed back, and the attempt does not count.

    `wait_seconds` None: a wait that grows with the job's age. `behind` is the closed lane that the job waits for.
    """

    reason: str
    interrupted: bool = False
    wait_seconds: float | None = 0
    behind: tuple[str, Closed] | None = None


@dataclass(frozen=True)
class Failed:
    """The attempt counts, and `retry_policy` decides about the job. `outcome` None: as the decision says."""

    error: JobError
    outcome: Outcome | None = None


UNEXPECTED = Failed(JobError(Category.INTERNAL, "unexpected"))


def ending_of(error: BaseException) -> Released | Failed:
    """Return what is recorded for this error."""
    match error:
        case Stopped(reason=reason):
            return Released(str(reason), interrupted=reason is StopReason.SHUTDOWN)
        case CancelRequested():
            return Released(str(StopReason.CANCEL))
        case LaneClosed(lane=lane, closed=closed):
            return Released("lane", behind=(lane, closed))
        case WaitsAtProvider(seconds=seconds):
            return Released("no_place" if seconds is None else "waits_at_provider", wait_seconds=seconds)
        case NoReaderFree():
            return Released("no_reader", wait_seconds=NO_READER_SECONDS)
        case OutOfTime():
            return Released("continue")
        case JobError():
            return Failed(error)
        case AttemptTimedOut():
            return Failed(JobError(Category.TIMEOUT, "attempt_budget"), Outcome.TIMED_OUT)
        case _:
            return UNEXPECTED
