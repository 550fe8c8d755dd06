"""Operations of operators, by their pages or commands."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import IntegrityError

from tasks.ledger.accounts import disabled
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.delivery import gate
from tasks.ledger.jobs.transitions import LANE_SPREAD_SECONDS
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import operator_actions, replays
from tasks.ledger.replays.selection import Choice
from tests.explore.actor import Actor
from tests.explore.operations.by_users import account_is_gone
from tests.explore.operations.registry import Effect, always, operation
from tests.explore.world import ACCOUNT, World


@dataclass(frozen=True)
class Drained:
    """The answer that so many jobs are held and no more will be."""

    active: int


@operation()
def open_lane(world: World, actor: Actor) -> object:
    """Open the lane, which releases the jobs that wait for it."""
    with actor.transaction() as session:
        return operator_actions.open_lane(
            session, world.settings.queue_name, world.lane, by="ops", note=None, spread_seconds=LANE_SPREAD_SECONDS
        )


@operation()
def pause(world: World, actor: Actor) -> object:
    """Let nothing more be sent."""
    with actor.transaction() as session:
        return gate.pause(session, world.settings.queue_name, by="ops").mode


@operation()
def drain(world: World, actor: Actor) -> object:
    """Let no attempt begin."""
    with actor.transaction() as session:
        return Drained(gate.drain(session, world.settings.queue_name, by="ops"))


@operation()
def resume(world: World, actor: Actor) -> object:
    """Let the work go on."""
    with actor.transaction() as session:
        before = gate.resume(session, world.settings.queue_name, by="ops")
    return None if before is None else before.mode


@operation(always, Effect.EXCEEDS_LIMITS)
def resume_one_at_once(world: World, actor: Actor) -> object:
    """Let the work go on, with one job at a time."""
    with actor.transaction() as session:
        before = gate.resume(session, world.settings.queue_name, by="ops", at_once=1)
    return None if before is None else before.mode


@operation(always, Effect.EXCEEDS_LIMITS)
def begin_replay(world: World, actor: Actor) -> object:
    """Begin a replay of both jobs."""
    settings = world.settings
    choice = Choice(jobs=[job for job in (world.job, world.other) if job is not None])
    with actor.transaction() as session:
        replays.begin(
            session,
            settings.queue_name,
            choice,
            cause=Cause.MISTAKE,
            note="n",
            by="ops",
            per_minute=600,
            terms=settings.replay_terms,
        )
    return "begun"


@operation()
def set_limits(world: World, actor: Actor) -> object:
    """Set a limit of the account."""
    try:
        with actor.transaction() as session:
            return operator_actions.set_limits(
                session, world.settings.queue_name, ACCOUNT, {Limit.JOBS_AT_ONCE: 2}, by="ops", note=None
            )
    except IntegrityError as error:
        return account_is_gone(error)


@operation()
def disable_account(world: World, actor: Actor) -> object:
    """Disable the account."""
    try:
        with actor.transaction() as session:
            return disabled.disable(session, ACCOUNT)
    except IntegrityError as error:
        return account_is_gone(error)


@operation()
def enable_account(world: World, actor: Actor) -> object:
    """Enable the account."""
    with actor.transaction() as session:
        return disabled.enable(session, ACCOUNT)
