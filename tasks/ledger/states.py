"""The whole state machine of a job, as one table. The guarded UPDATEs take their allowed states from it.

state             shown as                  who moves it on, and what if that one dies
queued            waiting                   a claim; the dispatcher owes the delivery until a claim settles it
running           attempt n of m            the claim holder; when its lease expires the reconciler takes the job back
retry_wait        waiting until T           a claim, once due; the dispatcher owes that delivery too
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
    """Where a job is. Stored as text; a CHECK holds the column to these words."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What can happen to a job. Every stored event row carries one of these words."""

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
    INSPECT = "inspect"  # an operator opened the document; it moves nothing


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    RELEASED = "released"
    CANCELLED = "cancelled"


class CallOutcome(StrEnum):
    """How a provider call ended. OPEN until its answer, or the certainty that none will come, is recorded."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # the request may have reached the provider and no usable answer came back: maybe billed
    CANCELLED = "cancelled"


class LaneState(StrEnum):
    """Whether calls may be made to a provider."""

    OPEN = "open"
    COOLING = "cooling"  # until a moment; then one call probes
    STOPPED = "stopped"  # until an operator resumes it


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
UNFINISHED = frozenset(State) - TERMINAL
WAITING = frozenset({State.QUEUED, State.RETRY_WAIT})
HELD = frozenset({State.RUNNING, State.CANCEL_REQUESTED})
"""The states in which somebody holds a claim, and only those."""

SETBACKS = frozenset({Event.RETRY_LATER, Event.RELEASE, Event.EXPIRE})
"""The events that hold a job up without ending it."""

S, E = State, Event

TRANSITIONS: Mapping[Event, Mapping[State, State]] = MappingProxyType(
    {
        # A cancelled wish stays withdrawn whatever its holder reports: every ending of a claim leads
        # from cancel_requested to cancelled, so cancel and success cannot both win.
        E.RECORD: {},  # from nothing to queued
        E.CLAIM: {S.QUEUED: S.RUNNING, S.RETRY_WAIT: S.RUNNING},
        E.RENEW: {S.RUNNING: S.RUNNING, S.CANCEL_REQUESTED: S.CANCEL_REQUESTED},
        E.CHECKPOINT: {S.RUNNING: S.RUNNING},
        E.SUCCEED: {S.RUNNING: S.SUCCEEDED, S.CANCEL_REQUESTED: S.CANCELLED},
        E.RETRY_LATER: {S.RUNNING: S.RETRY_WAIT, S.CANCEL_REQUESTED: S.CANCELLED},
        E.FAIL: {
            S.RUNNING: S.FAILED,
            S.CANCEL_REQUESTED: S.CANCELLED,
            S.QUEUED: S.FAILED,  # the deadline passed, or it was interrupted too often, with nobody holding it
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
    """The state `event` leads to from `state`; None where the event is not allowed there."""
    return TRANSITIONS[event].get(state)
