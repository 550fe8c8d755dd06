"""The steps from which start states are built, each with the ledger's own functions."""

from __future__ import annotations

import uuid

from sqlalchemy.orm import Session

from tasks.ledger.calls import calls, lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.notifications import preferences
from tasks.ledger.states import State
from tasks.settings import Settings
from tests.explore.world import (
    ACCOUNT,
    HOLDER,
    LEASE_SECONDS,
    MAX_INTERRUPTIONS,
    RESERVATION_SECONDS,
    RESPONSE,
    World,
    accept,
    new_call,
    sql,
)
from tests.support import factories
from webapp.models import Account


def accept_jobs(session: Session, settings: Settings, *, two: bool = False) -> World:
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


def send_messages(session: Session, world: World, *, lost: bool = False) -> World:
    """Send the messages of all deliveries. `lost`: the queue has lost them, and it is time to send them again."""
    due = "now() - interval '1 s'" if lost else "now() + interval '200 s'"
    sent = f"UPDATE deliveries SET dispatches = 1, dispatched_at = now(), due_at = {due} RETURNING job_id, number"
    for job, number in sql(session, sent):
        world.queue.send(job, number, wait_seconds=0)
    if lost:
        world.queue.messages = []
    return world


def claim_for(session: Session, world: World, job: uuid.UUID, worker: str = HOLDER) -> Claim:
    """Claim a job for a worker."""
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


def open_call(session: Session, world: World, claim: Claim, *, background: bool = False) -> uuid.UUID:
    """Open a call under this claim."""
    call = calls.open_call(session, claim.job_id, claim.generation, new_call(world.lane, background=background))
    assert isinstance(call, uuid.UUID), call
    return call


def hold(session: Session, world: World, *, background: bool = False) -> World:
    """Claim the job and open a call."""
    world.claim = claim_for(session, world, world.job)
    world.call = open_call(session, world, world.claim, background=background)
    world.is_background = background
    return world


def accept_response(session: Session, world: World) -> World:
    """Let the provider accept the call in the background."""
    assert world.call is not None
    world.has_response = calls.note_response(session, world.call, RESPONSE, world.lane)
    return world


def claim_of(world: World) -> Claim:
    """Return the claim that is held."""
    assert world.claim is not None
    return world.claim


def let_lease_end(session: Session, world: World) -> World:
    """Move the end of the job's lease into the past."""
    sql(session, "UPDATE jobs SET lease_expires_at = now() - interval '1 s' WHERE id = :job", job=world.job)
    return world


def let_deadline_pass(session: Session, world: World) -> World:
    """Move the job's deadline into the past."""
    sql(session, "UPDATE jobs SET deadline_at = now() - interval '1 s' WHERE id = :job", job=world.job)
    return world


def take_back(session: Session, world: World) -> State | None:
    """Let the lease end, and take the job back; the worker does not know it."""
    let_lease_end(session, world)
    state = transitions.expire(session, world.job, max_interruptions=MAX_INTERRUPTIONS)
    world.late_claim, world.late_call, world.claim, world.call = world.claim, world.call, None, None
    return state


def age(session: Session, world: World) -> World:
    """Let the job have ended 40 days ago."""
    past = "created_at = created_at - interval '40 days', finished_at = finished_at - interval '40 days'"
    sql(session, f"UPDATE jobs SET {past} WHERE id = :job", job=world.job)
    return world


def fail(session: Session, world: World) -> World:
    """Let the worker fail the job."""
    transitions.fail(session, claim_of(world), category=Category.TIMEOUT, code="attempt_budget")
    world.claim, world.late_claim, world.call, world.late_call = None, world.claim, None, world.call
    return world


def put_back_into_queue(session: Session, world: World) -> World:
    """Put the failed job back."""
    state = transitions.replay(session, world.job, deadline_seconds=3600, more_attempts=3, cause="owner")
    assert state is State.QUEUED, state
    return world


def park(session: Session, world: World, *jobs: uuid.UUID | None) -> World:
    """Let these jobs meet the closed lane."""
    for job in filter(None, jobs):
        refused = transitions.claim(
            session, job, worker=HOLDER, lane=world.lane, lease_seconds=600, reservation_seconds=900
        )
        assert refused == Refused("lane"), refused
    world.closed = lanes.check(session, world.lane)
    return world


def stop_lane(session: Session, world: World) -> World:
    """Stop the lane until an operator opens it."""
    lanes.stop(session, world.lane, category=Category.AUTH, code="bad_key")
    world.closed = lanes.check(session, world.lane)
    return world


def cool_lane(session: Session, world: World) -> World:
    """Let the lane cool down for some minutes."""
    lanes.cool(session, world.lane, seconds=200, category=Category.RATE_LIMITED, code=None)
    world.closed = lanes.check(session, world.lane)
    return world
