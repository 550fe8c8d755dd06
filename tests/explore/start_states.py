"""The states of the tables from which operations start. Each is built with the ledger's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from tasks.ledger.calls import calls
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import replays
from tasks.ledger.replays.selection import Choice
from tasks.ledger.states import CallOutcome, State
from tasks.settings import Settings
from tests.explore.preparation import (
    accept_jobs,
    accept_response,
    age,
    claim_for,
    claim_of,
    cool_lane,
    fail,
    hold,
    let_deadline_pass,
    let_lease_end,
    open_call,
    park,
    put_back_into_queue,
    send_messages,
    stop_lane,
    take_back,
)
from tests.explore.world import (
    ACCOUNT,
    MAX_INTERRUPTIONS,
    SUCCESSOR,
    World,
    sql,
)

StartState = Callable[[Session, Settings], World]
START_STATES: dict[str, StartState] = {}


def start_state(build: StartState) -> StartState:
    """Register a function that builds a start state, under its name."""
    START_STATES[build.__name__] = build
    return build


# Waiting for a worker.


@start_state
def queued(session: Session, settings: Settings) -> World:
    """Two jobs whose messages have not been sent."""
    return accept_jobs(session, settings, two=True)


@start_state
def queued_sent(session: Session, settings: Settings) -> World:
    """Two jobs whose messages are in the queue."""
    return send_messages(session, accept_jobs(session, settings, two=True))


@start_state
def queued_lost(session: Session, settings: Settings) -> World:
    """A job whose message the queue has lost."""
    return send_messages(session, accept_jobs(session, settings), lost=True)


@start_state
def queued_late(session: Session, settings: Settings) -> World:
    """A job whose deadline passed while it waited."""
    return let_deadline_pass(session, send_messages(session, accept_jobs(session, settings)))


@start_state
def owed_nothing(session: Session, settings: Settings) -> World:
    """A waiting job whose delivery was deleted by hand."""
    world = accept_jobs(session, settings)
    sql(session, "DELETE FROM deliveries")
    world.owed_nothing = True
    return world


@start_state
def retry_due(session: Session, settings: Settings) -> World:
    """A job that may be tried again now."""
    world = hold(session, accept_jobs(session, settings))
    transitions.retry_later(session, claim_of(world), category=Category.OVERLOADED, delay_seconds=0)
    world.claim, world.late_claim, world.call, world.late_call = None, world.claim, None, world.call
    return world


# Held by a worker.


@start_state
def running(session: Session, settings: Settings) -> World:
    """A job with a call in flight."""
    return hold(session, accept_jobs(session, settings))


@start_state
def requesting_in_background(session: Session, settings: Settings) -> World:
    """A job whose request the provider is about to accept, to work on it in the background."""
    return hold(session, accept_jobs(session, settings), background=True)


@start_state
def running_in_background(session: Session, settings: Settings) -> World:
    """A job whose call has a response id at the provider."""
    return accept_response(session, requesting_in_background(session, settings))


@start_state
def running_expired(session: Session, settings: Settings) -> World:
    """A job whose lease is over, while its worker still lives."""
    return let_lease_end(session, hold(session, accept_jobs(session, settings)))


@start_state
def running_poisonous(session: Session, settings: Settings) -> World:
    """A job that has been interrupted as often as is allowed, and whose lease is over."""
    world = hold(session, accept_jobs(session, settings))
    sql(session, "UPDATE jobs SET interruptions = :number", number=MAX_INTERRUPTIONS)
    return let_lease_end(session, world)


@start_state
def running_late(session: Session, settings: Settings) -> World:
    """A job whose lease and deadline are over."""
    return let_deadline_pass(session, let_lease_end(session, hold(session, accept_jobs(session, settings))))


@start_state
def cancel_requested(session: Session, settings: Settings) -> World:
    """A held job whose owner has cancelled it."""
    world = hold(session, accept_jobs(session, settings))
    transitions.cancel(session, world.job, ACCOUNT)
    return world


@start_state
def taken_over(session: Session, settings: Settings) -> World:
    """A job that was taken back and claimed by a second worker, while the first still works on it."""
    world = hold(session, accept_jobs(session, settings))
    take_back(session, world)
    world.claim = claim_for(session, world, world.job, SUCCESSOR)
    world.call = open_call(session, world, world.claim)
    return world


# Taken back from its worker, or put back after it had failed.


@start_state
def taken_back(session: Session, settings: Settings) -> World:
    """A job that waits after it was taken back, while its worker still works on it."""
    world = hold(session, accept_jobs(session, settings))
    take_back(session, world)
    return send_messages(session, world)


@start_state
def put_back(session: Session, settings: Settings) -> World:
    """A job that failed as interrupted too often and was put back, while its worker still works on it."""
    world = running_poisonous(session, settings)
    assert take_back(session, world) is State.FAILED
    return send_messages(session, put_back_into_queue(session, world))


@start_state
def put_back_by_its_holder(session: Session, settings: Settings) -> World:
    """A job that its worker has failed and that was put back, while that worker does not know that its COMMIT held."""
    return send_messages(
        session, put_back_into_queue(session, fail(session, hold(session, accept_jobs(session, settings))))
    )


@start_state
def put_back_and_claimed(session: Session, settings: Settings) -> World:
    """A job that was put back and claimed by a second worker, while the first still works on it."""
    world = put_back(session, settings)
    world.queue.messages = []
    world.claim = claim_for(session, world, world.job, SUCCESSOR)
    world.call = open_call(session, world, world.claim)
    return world


# Ended.


@start_state
def succeeded(session: Session, settings: Settings) -> World:
    """A job with a result."""
    world = hold(session, accept_jobs(session, settings))
    assert world.call is not None
    calls.close_call(session, world.call, CallReport(CallOutcome.SUCCEEDED, input_tokens=5, output_tokens=2))
    transitions.succeed(session, claim_of(world), text="text", facts={})
    return world


@start_state
def succeeded_long_ago(session: Session, settings: Settings) -> World:
    """A job with a result that is older than the retention."""
    return age(session, succeeded(session, settings))


@start_state
def failed(session: Session, settings: Settings) -> World:
    """A failed job, and another one that waits."""
    return fail(session, hold(session, accept_jobs(session, settings, two=True)))


@start_state
def failed_long_ago(session: Session, settings: Settings) -> World:
    """A failed job that is older than the retention, and another one that waits."""
    return age(session, failed(session, settings))


@start_state
def failed_in_replay(session: Session, settings: Settings) -> World:
    """Two failed jobs in a replay that has not had a turn."""
    world = failed(session, settings)
    assert world.other is not None
    claim = claim_for(session, world, world.other)
    transitions.fail(session, claim, category=Category.TIMEOUT, code="attempt_budget")
    gate.pause(session, settings.queue_name, by="ops")
    choice = Choice(jobs=[world.job, world.other])
    more: dict[str, Any] = {"cause": Cause.MISTAKE, "note": "n", "by": "ops", "per_minute": 600}
    replays.begin(session, settings.queue_name, choice, terms=settings.replay_terms, **more)
    gate.resume(session, settings.queue_name, by="ops")
    return world


@start_state
def cancelled(session: Session, settings: Settings) -> World:
    """A job that was cancelled before any worker claimed it."""
    world = accept_jobs(session, settings)
    transitions.cancel(session, world.job, ACCOUNT)
    return world


@start_state
def cancelled_in_background(session: Session, settings: Settings) -> World:
    """A cancelled job whose response the provider still works on."""
    world = running_in_background(session, settings)
    transitions.cancel(session, world.job, ACCOUNT)
    transitions.release(session, claim_of(world), reason="cancel", interrupted=False)
    return world


# Held up by the lane or by an operator.


@start_state
def lane_stopped(session: Session, settings: Settings) -> World:
    """Two jobs with messages in the queue, before a lane that has just been stopped."""
    return stop_lane(session, send_messages(session, accept_jobs(session, settings, two=True)))


@start_state
def parked(session: Session, settings: Settings) -> World:
    """Two jobs that wait for a stopped lane."""
    world = lane_stopped(session, settings)
    world.queue.messages = []
    return park(session, world, world.job, world.other)


@start_state
def running_before_stopped_lane(session: Session, settings: Settings) -> World:
    """A held job, and another one that waits for the lane, which was stopped in the meantime."""
    world = stop_lane(session, hold(session, accept_jobs(session, settings, two=True)))
    return park(session, world, world.other)


@start_state
def running_before_cooling_lane(session: Session, settings: Settings) -> World:
    """A held job, and another one that waits for the lane, which cools down."""
    world = cool_lane(session, hold(session, accept_jobs(session, settings, two=True)))
    return park(session, world, world.other)


@start_state
def one_at_once(session: Session, settings: Settings) -> World:
    """Two jobs with messages in the queue, of which only one may be held at the same time."""
    world = send_messages(session, accept_jobs(session, settings, two=True))
    gate.resume(session, settings.queue_name, by="ops", at_once=1)
    return world


@start_state
def drained(session: Session, settings: Settings) -> World:
    """A job with a message in the queue, which is drained."""
    world = send_messages(session, accept_jobs(session, settings))
    gate.drain(session, settings.queue_name, by="ops")
    return world
