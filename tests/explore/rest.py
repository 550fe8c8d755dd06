"""Brings a site to rest: the real loops and a worker go on, time passes, and at the end every job must have ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeVar, cast

from sqlalchemy import DateTime, text
from sqlalchemy.orm import Session, sessionmaker

from tasks.ledger.accounts import disabled
from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.calls.lanes import Closed, Full
from tasks.ledger.delivery import gate
from tasks.ledger.errors import CancelRequested, ClaimLost, JobError
from tasks.ledger.jobs import checkpoints, leases, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.models import Base, Instant
from tasks.ledger.replays import operator_actions
from tasks.ledger.states import SAVE_STEP, CallOutcome, LaneState
from tasks.maintenance.reconciler import Reconciler
from tasks.maintenance.replayer import Replayer
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tests.explore.actor import Actor
from tests.explore.operations import OPERATIONS
from tests.explore.operations.by_workers import claim_job
from tests.explore.world import ACCOUNT, STEP, World, new_call

T = TypeVar("T")
MAX_ROUNDS = 12
ROUND_SECONDS, LONG_ROUND, LONG_SECONDS = 70.0, 2, 700.0
"""Let 70 s pass between two rounds, and once so much that every lease and every pause is over."""
UNFINISHED = text(
    "SELECT (SELECT count(*) FROM jobs WHERE finished_at IS NULL)"
    " + (SELECT count(*) FROM provider_calls WHERE outcome = 'open')"
    " + (SELECT count(*) FROM replays WHERE state = 'running')"
)
MOVED = ("jobs", "deliveries", "lanes", "notices", "attempts", "provider_calls", "replays", "replay_items", "workers")


def _shift(table: str) -> str:
    times = [
        column.name for column in Base.metadata.tables[table].columns if isinstance(column.type, Instant | DateTime)
    ]
    return f"UPDATE {table} SET " + ", ".join(f"{name} = {name} - make_interval(secs => :seconds)" for name in times)


SHIFTS = [text(_shift(table)) for table in MOVED]


def let_time_pass(session: Session, seconds: float) -> None:
    """Move all times into the past."""
    for shift in SHIFTS:
        session.execute(shift, {"seconds": seconds})


class Plain:
    """Gives work its transactions without steps, where an operation expects an actor."""

    name = "rest"

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def transaction(self) -> AbstractContextManager[Session]:
        """Begin a transaction."""
        return self._sessions.begin()

    def persist(self, work: Callable[[Session], T]) -> T:
        """Run the work in a transaction."""
        with self.transaction() as session:
            return work(session)


def bring_to_rest(sessions: sessionmaker[Session], world: World) -> bool:
    """Let the loops and a worker go on until nothing is unfinished. Returns False if something never ends."""
    actor = cast(Actor, Plain(sessions))
    settings = world.settings
    with actor.transaction() as session:
        gate.resume(session, settings.queue_name, by="ops")
        disabled.enable(session, ACCOUNT)
        operator_actions.open_lane(session, settings.queue_name, world.lane, by="ops", note=None, spread_seconds=0)
    for number in range(MAX_ROUNDS):
        with actor.transaction() as session:
            if not session.execute(UNFINISHED).scalar_one():
                return True
            if number:
                let_time_pass(session, LONG_SECONDS if number == LONG_ROUND else ROUND_SECONDS)
            leases.record_heartbeat(session, actor.name, queue=settings.queue_name, slots=4)
        world.queue.let_scheduled_run()
        Reconciler(actor.transaction, settings, lambda: None).step()
        Replayer(actor.transaction, settings, lambda: None).step()
        for _ in range(2):
            Dispatcher(actor.transaction, cast(DeliveryQueue, world.queue)).step()
            _take_messages(world, actor)
        OPERATIONS["cancel_responses"].run(world, actor)
    return False


def _take_messages(world: World, actor: Actor) -> None:
    """Take every message, and work on its job as an attempt does."""
    messages, world.queue.messages = world.queue.messages, []
    for job_id, _ in messages:
        claim = claim_job(world, actor, job_id)
        if isinstance(claim, Claim):
            with suppress(ClaimLost, CancelRequested):
                _attempt(world, actor, claim)


def _attempt(world: World, actor: Actor, claim: Claim) -> None:
    with actor.transaction() as session:
        pending = calls.open_responses(session, claim.job_id).get(STEP)
    try:
        call = pending.call_id if pending else actor.persist(
            lambda session: calls.open_call(session, claim.job_id, claim.generation, new_call(world.lane))
        )  # fmt: skip
    except JobError as error:
        category, code = error.category, error.code
        actor.persist(lambda session: transitions.fail(session, claim, category=category, code=code))
        return
    if call is None:
        actor.persist(lambda session: transitions.release(session, claim, reason="cancel", interrupted=False))
        return
    if isinstance(call, Closed | Full):
        closed = call if isinstance(call, Closed) else Closed(LaneState.OPEN, 1.0, None)
        behind = (world.lane, closed)
        actor.persist(
            lambda session: transitions.release(session, claim, reason="lane", interrupted=False, behind=behind)
        )
        return

    def save(session: Session) -> None:
        calls.close_call(session, call, CallReport(CallOutcome.SUCCEEDED, input_tokens=1, output_tokens=1))
        lanes.record_success(session, world.lane, call, spread_seconds=0)
        checkpoints.save(session, claim, STEP, SavedStep("answer", {}), next_step=SAVE_STEP, done=1, total=1)

    actor.persist(save)
    actor.persist(lambda session: transitions.succeed(session, claim, text="at rest", facts={}))
