"""The whole state machine of a job, as one table. The guarded UPDATE takes the allowed states from it.

state             shown as                  left by; and if that process dies
queued            waiting                   a claim; the delivery is owed, and sent again, until a claim consumes it
running           attempt n of m            the claim holder; when its lease expires, the reconciler takes the job back
retry_wait        waiting until T           a claim, once due; its delivery is owed in the same way
succeeded         saved                     nobody
failed            stopped                   an operator's replay, or the owner's "Try again" after a passing cause
cancel_requested  cancelling                the claim holder, or the expiry of its lease
cancelled         nothing more will happen  nobody
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """The state of a job. Stored as text; a CHECK constraint allows only these words."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """An event that can happen to a job. Every row in `events` has one of these words."""

    RECORD = "record"
    CLAIM = "claim"
    RENEW = "renew"
    CHECKPOINT = "checkpoint"
    SUCCEED = "succeed"
    RETRY_LATER = "retry_later"
    FAIL = "fail"
    RELEASE = "release"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REPLAY = "replay"
    INSPECT = "inspect"  # an operator opened the document; the state stays


class Outcome(StrEnum):
    """The way an attempt ended."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    RELEASED = "released"
    CANCELLED = "cancelled"


class CallOutcome(StrEnum):
    """The outcome of a provider call. OPEN until its response is recorded, or the fact that none will come."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # the request may have reached the provider, and no usable response came: it may be billed
    CANCELLED = "cancelled"


class LaneState(StrEnum):
    """The state of a lane: it decides if calls may be made to a provider."""

    OPEN = "open"
    COOLING = "cooling"  # until `lanes.until`; then one call probes
    STOPPED = "stopped"  # until an operator resumes it


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
UNFINISHED = frozenset(State) - TERMINAL
WAITING = frozenset({State.QUEUED, State.RETRY_WAIT})
HELD = frozenset({State.RUNNING, State.CANCEL_REQUESTED})
"""List the states in which a worker holds a claim. In all others none does."""

READ_STEP, SAVE_STEP = "read", "save"
"""Name the first and the last step of every job. Those between them are named by the workflow."""

SETBACKS = frozenset({Event.RETRY_LATER, Event.RELEASE, Event.EXPIRE})
"""List the events that delay a job without ending it."""

S, E = State, Event

TRANSITIONS: Mapping[Event, Mapping[State, State]] = MappingProxyType(
    {
        # A cancelled job stays cancelled whatever its claim holder reports: every event that ends a claim leads
        # from cancel_requested to cancelled, so cancel and success cannot both win.
        E.RECORD: {},  # the row is inserted as queued
        E.CLAIM: {S.QUEUED: S.RUNNING, S.RETRY_WAIT: S.RUNNING},
        E.RENEW: {S.RUNNING: S.RUNNING, S.CANCEL_REQUESTED: S.CANCEL_REQUESTED},
        E.CHECKPOINT: {S.RUNNING: S.RUNNING},
        E.SUCCEED: {S.RUNNING: S.SUCCEEDED, S.CANCEL_REQUESTED: S.CANCELLED},
        E.RETRY_LATER: {S.RUNNING: S.RETRY_WAIT, S.CANCEL_REQUESTED: S.CANCELLED},
        # The last two only without a claim, see `change_state`: the deadline passed, or it was interrupted too often.
        E.FAIL: {
            S.RUNNING: S.FAILED,
            S.CANCEL_REQUESTED: S.CANCELLED,
            S.QUEUED: S.FAILED,
            S.RETRY_WAIT: S.FAILED,
        },
        E.RELEASE: {S.RUNNING: S.QUEUED, S.CANCEL_REQUESTED: S.CANCELLED},
        E.CANCEL: {S.QUEUED: S.CANCELLED, S.RETRY_WAIT: S.CANCELLED, S.RUNNING: S.CANCEL_REQUESTED},
        E.EXPIRE: {S.RUNNING: S.RETRY_WAIT, S.CANCEL_REQUESTED: S.CANCELLED},
        E.REPLAY: {S.FAILED: S.QUEUED},
        E.INSPECT: {state: state for state in S},
    }
)


def target(event: Event, state: State) -> State | None:
    """Return the state to which `event` leads from `state`. Returns None if the event is not allowed in `state`."""
    return TRANSITIONS[event].get(state)
