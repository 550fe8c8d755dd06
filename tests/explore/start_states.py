"""The states of the tables from which operations start. Each is built with the ledger's own functions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models.control import Cause
from tasks.ledger.notifications import preferences
from tasks.ledger.replays import replays
from tasks.ledger.replays.selection import Choice
from tasks.ledger.states import CallOutcome, State
from tasks.settings import Settings
from tests.explore.world import (
    ACCOUNT,
    HOLDER,
    LEASE_SECONDS,
    MAX_INTERRUPTIONS,
    RESERVATION_SECONDS,
    RESPONSE,
    SUCCESSOR,
    World,
    accept,
    new_call,
    sql,
)
from tests.support import factories
from webapp.models import Account

StartState = Callable[[Session, Settings], World]
START_STATES: dict[str, StartState] = {}


def start_state(build: StartState) -> StartState:
    """Register a function that builds a start state, under its name."""
    START_STATES[build.__name__] = build
    return build


# Steps on the way to a start state.


def _accepted(session: Session, settings: Settings, *, two: bool = False) -> World:
    """Accept one job, or two, of an account that wants to be told by webhook, beside a worker that is long alive."""
    session.add(Account(id=ACCOUNT, email="a@example.org", password_hash="-"))
    session.flush()
    preferences.set_email(session, ACCOUNT, "a@example.org", on=True)
    preferences.set_webhook(session, ACCOUNT, "https://hook.example.org/")
    leases.record_heartbeat(session, HOLDER, queue=factories.QUEUE, slots=4)
    sql(session, "UPDATE workers SET steady_since = now() - interval '1 hour'")
    job = accept(session, settings, 1, idempotency_key="key-1").job_id
    document = sql(session, "SELECT document_id FROM jobs WHERE id = :job", job=job).scalar_one()
    return World(settings, job, document, other=accept(session, settings, 2).job_id if two else None)


def _send(session: Session, world: World, *, lost: bool = False) -> World:
    """Send the messages of all deliveries. `lost`: the queue has lost them, and it is time to send them again."""
    due = "now() - interval '1 s'" if lost else "now() + interval '200 s'"
    sent = f"UPDATE deliveries SET dispatches = 1, dispatched_at = now(), due_at = {due} RETURNING job_id, number"
    for job, number in sql(session, sent):
        world.queue.send(job, number, wait_seconds=0)
    if lost:
        world.queue.messages = []
    return world


def _claim(session: Session, world: World, job: uuid.UUID, worker: str = HOLDER) -> Claim:
    claim = transitions.claim(
        session,
        job,
        worker=worker,
        lane=world.lane,
        lease_seconds=LEASE_SECONDS,
        reservation_seconds=RESERVATION_SECONDS,
        alone=True,
    )
    assert isinstance(claim, Claim), claim
    return claim


def _call(session: Session, world: World, claim: Claim, *, background: bool = False) -> uuid.UUID:
    call = calls.open_call(session, claim.job_id, claim.generation, new_call(world.lane, background=background))
    assert isinstance(call, uuid.UUID), call
    return call


def _held(session: Session, world: World, *, background: bool = False) -> World:
    world.claim = _claim(session, world, world.job)
    world.call = _call(session, world, world.claim, background=background)
    world.is_background = background
    return world


def _accept_response(session: Session, world: World) -> World:
    """Let the provider accept the call in the background."""
    assert world.call is not None
    world.has_response = calls.note_response(session, world.call, RESPONSE, world.lane)
    return world


def _claim_of(world: World) -> Claim:
    assert world.claim is not None
    return world.claim


def _let_lease_end(session: Session, world: World) -> World:
    sql(session, "UPDATE jobs SET lease_expires_at = now() - interval '1 s' WHERE id = :job", job=world.job)
    return world


def _let_deadline_pass(session: Session, world: World) -> World:
    sql(session, "UPDATE jobs SET deadline_at = now() - interval '1 s' WHERE id = :job", job=world.job)
    return world


def _take_back(session: Session, world: World) -> State | None:
    """Let the lease end, and take the job back; the worker does not know it."""
    _let_lease_end(session, world)
    state = transitions.expire(session, world.job, max_interruptions=MAX_INTERRUPTIONS)
    world.late_claim, world.late_call, world.claim, world.call = world.claim, world.call, None, None
    return state


def _age(session: Session, world: World) -> World:
    past = "created_at = created_at - interval '40 days', finished_at = finished_at - interval '40 days'"
    sql(session, f"UPDATE jobs SET {past} WHERE id = :job", job=world.job)
    return world


def _fail(session: Session, world: World) -> World:
    transitions.fail(session, _claim_of(world), category=Category.TIMEOUT, code="attempt_budget")
    world.claim, world.late_claim, world.call, world.late_call = None, world.claim, None, world.call
    return world


def _put_back(session: Session, world: World) -> World:
    state = transitions.replay(session, world.job, deadline_seconds=3600, more_attempts=3, cause="owner")
    assert state is State.QUEUED, state
    return world


def _park(session: Session, world: World, *jobs: uuid.UUID | None) -> World:
    """Let these jobs meet the closed lane."""
    for job in filter(None, jobs):
        refused = transitions.claim(
            session, job, worker=HOLDER, lane=world.lane, lease_seconds=600, reservation_seconds=900
        )
        assert refused == Refused("lane"), refused
    world.closed = lanes.check(session, world.lane)
    return world


def _stop_lane(session: Session, world: World) -> World:
    lanes.stop(session, world.lane, category=Category.AUTH, code="bad_key")
    world.closed = lanes.check(session, world.lane)
    return world


def _cool_lane(session: Session, world: World) -> World:
    lanes.cool(session, world.lane, seconds=200, category=Category.RATE_LIMITED, code=None)
    world.closed = lanes.check(session, world.lane)
    return world


# Waiting for a worker.


@start_state
def queued(session: Session, settings: Settings) -> World:
    """Two jobs whose messages have not been sent."""
    return _accepted(session, settings, two=True)


@start_state
def queued_sent(session: Session, settings: Settings) -> World:
    """Two jobs whose messages are in the queue."""
    return _send(session, _accepted(session, settings, two=True))


@start_state
def queued_lost(session: Session, settings: Settings) -> World:
    """A job whose message the queue has lost."""
    return _send(session, _accepted(session, settings), lost=True)


@start_state
def queued_late(session: Session, settings: Settings) -> World:
    """A job whose deadline passed while it waited."""
    return _let_deadline_pass(session, _send(session, _accepted(session, settings)))


@start_state
def owed_nothing(session: Session, settings: Settings) -> World:
    """A waiting job whose delivery was deleted by hand."""
    world = _accepted(session, settings)
    sql(session, "DELETE FROM deliveries")
    world.owed_nothing = True
    return world


@start_state
def retry_due(session: Session, settings: Settings) -> World:
    """A job that may be tried again now."""
    world = _held(session, _accepted(session, settings))
    transitions.retry_later(session, _claim_of(world), category=Category.OVERLOADED, delay_seconds=0)
    world.claim, world.late_claim, world.call, world.late_call = None, world.claim, None, world.call
    return world


# Held by a worker.


@start_state
def running(session: Session, settings: Settings) -> World:
    """A job with a call in flight."""
    return _held(session, _accepted(session, settings))


@start_state
def requesting_in_background(session: Session, settings: Settings) -> World:
    """A job whose request the provider is about to accept, to work on it in the background."""
    return _held(session, _accepted(session, settings), background=True)


@start_state
def running_in_background(session: Session, settings: Settings) -> World:
    """A job whose call has a response id at the provider."""
    return _accept_response(session, requesting_in_background(session, settings))


@start_state
def running_expired(session: Session, settings: Settings) -> World:
    """A job whose lease is over, while its worker still lives."""
    return _let_lease_end(session, _held(session, _accepted(session, settings)))


@start_state
def running_poisonous(session: Session, settings: Settings) -> World:
    """A job that has been interrupted as often as is allowed, and whose lease is over."""
    world = _held(session, _accepted(session, settings))
    sql(session, "UPDATE jobs SET interruptions = :number", number=MAX_INTERRUPTIONS)
    return _let_lease_end(session, world)


@start_state
def running_late(session: Session, settings: Settings) -> World:
    """A job whose lease and deadline are over."""
    return _let_deadline_pass(session, _let_lease_end(session, _held(session, _accepted(session, settings))))


@start_state
def cancel_requested(session: Session, settings: Settings) -> World:
    """A held job whose owner has cancelled it."""
    world = _held(session, _accepted(session, settings))
    transitions.cancel(session, world.job, ACCOUNT)
    return world


@start_state
def taken_over(session: Session, settings: Settings) -> World:
    """A job that was taken back and claimed by a second worker, while the first still works on it."""
    world = _held(session, _accepted(session, settings))
    _take_back(session, world)
    world.claim = _claim(session, world, world.job, SUCCESSOR)
    world.call = _call(session, world, world.claim)
    return world


# Put back after it had failed.


@start_state
def taken_back(session: Session, settings: Settings) -> World:
    """A job that waits after it was taken back, while its worker still works on it."""
    world = _held(session, _accepted(session, settings))
    _take_back(session, world)
    return _send(session, world)


@start_state
def put_back(session: Session, settings: Settings) -> World:
    """A job that failed as interrupted too often and was put back, while its worker still works on it."""
    world = running_poisonous(session, settings)
    assert _take_back(session, world) is State.FAILED
    return _send(session, _put_back(session, world))


@start_state
def put_back_by_its_holder(session: Session, settings: Settings) -> World:
    """A job that its worker has failed and that was put back, while that worker does not know that its COMMIT held."""
    return _send(session, _put_back(session, _fail(session, _held(session, _accepted(session, settings)))))


@start_state
def put_back_and_claimed(session: Session, settings: Settings) -> World:
    """A job that was put back and claimed by a second worker, while the first still works on it."""
    world = put_back(session, settings)
    world.queue.messages = []
    world.claim = _claim(session, world, world.job, SUCCESSOR)
    world.call = _call(session, world, world.claim)
    return world


# Ended.


@start_state
def succeeded(session: Session, settings: Settings) -> World:
    """A job with a result."""
    world = _held(session, _accepted(session, settings))
    assert world.call is not None
    calls.close_call(session, world.call, CallReport(CallOutcome.SUCCEEDED, input_tokens=5, output_tokens=2))
    transitions.succeed(session, _claim_of(world), text="text", facts={})
    return world


@start_state
def succeeded_long_ago(session: Session, settings: Settings) -> World:
    """A job with a result that is older than the retention."""
    return _age(session, succeeded(session, settings))


@start_state
def failed(session: Session, settings: Settings) -> World:
    """A failed job, and another one that waits."""
    return _fail(session, _held(session, _accepted(session, settings, two=True)))


@start_state
def failed_long_ago(session: Session, settings: Settings) -> World:
    """A failed job that is older than the retention, and another one that waits."""
    return _age(session, failed(session, settings))


@start_state
def failed_in_replay(session: Session, settings: Settings) -> World:
    """Two failed jobs in a replay that has not had a turn."""
    world = failed(session, settings)
    assert world.other is not None
    claim = _claim(session, world, world.other)
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
    world = _accepted(session, settings)
    transitions.cancel(session, world.job, ACCOUNT)
    return world


@start_state
def cancelled_in_background(session: Session, settings: Settings) -> World:
    """A cancelled job whose response the provider still works on."""
    world = running_in_background(session, settings)
    transitions.cancel(session, world.job, ACCOUNT)
    transitions.release(session, _claim_of(world), reason="cancel", interrupted=False)
    return world


# Held up by the lane or by an operator.


@start_state
def lane_stopped(session: Session, settings: Settings) -> World:
    """Two jobs with messages in the queue, before a lane that has just been stopped."""
    return _stop_lane(session, _send(session, _accepted(session, settings, two=True)))


@start_state
def parked(session: Session, settings: Settings) -> World:
    """Two jobs that wait for a stopped lane."""
    world = lane_stopped(session, settings)
    world.queue.messages = []
    return _park(session, world, world.job, world.other)


@start_state
def running_before_stopped_lane(session: Session, settings: Settings) -> World:
    """A held job, and another one that waits for the lane, which was stopped in the meantime."""
    world = _stop_lane(session, _held(session, _accepted(session, settings, two=True)))
    return _park(session, world, world.other)


@start_state
def running_before_cooling_lane(session: Session, settings: Settings) -> World:
    """A held job, and another one that waits for the lane, which cools down."""
    world = _cool_lane(session, _held(session, _accepted(session, settings, two=True)))
    return _park(session, world, world.other)


@start_state
def one_at_once(session: Session, settings: Settings) -> World:
    """Two jobs with messages in the queue, of which only one may be held at the same time."""
    world = _send(session, _accepted(session, settings, two=True))
    gate.resume(session, settings.queue_name, by="ops", at_once=1)
    return world


@start_state
def drained(session: Session, settings: Settings) -> World:
    """A job with a message in the queue, which is drained."""
    world = _send(session, _accepted(session, settings))
    gate.drain(session, settings.queue_name, by="ops")
    return world
