"""Operations of a worker on a job: claim it, call the provider, save, and end the attempt.

Each operation that shows a claim exists twice: `succeed` shows the claim that is held, and `late_succeed` shows one
that was lost. A worker repeats each of these transactions when the database fails it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy.orm import Session

from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.calls.lanes import Closed
from tasks.ledger.errors import CancelRequested, Category, ClaimLost, JobError
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.states import READ_STEP, SAVE_STEP, CallOutcome, LaneState
from tests.explore.actor import Actor
from tests.explore.operations.registry import Effect, Run, has_other, register
from tests.explore.world import LEASE_SECONDS, RESERVATION_SECONDS, RESPONSE, STEP, World, new_call

ANSWERED = CallReport(CallOutcome.SUCCEEDED, input_tokens=3, output_tokens=4)
RATE_LIMITED = CallReport(CallOutcome.FAILED, category=Category.RATE_LIMITED, http_status=429)
KEY_REFUSED = CallReport(CallOutcome.FAILED, category=Category.AUTH, http_status=401)
SERVER_ERROR = CallReport(CallOutcome.FAILED, category=Category.INTERNAL, http_status=500)


@dataclass(frozen=True)
class ResponseNoted:
    """The answer that the id of a response is saved."""

    response_id: str


OfClaim = Callable[[World, Actor, Claim, uuid.UUID | None], object]


def claim_job(world: World, actor: Actor, job: uuid.UUID) -> Claim | Refused:
    """Claim the job beside others; if that is refused because it is a suspect, claim it alone."""
    claim = actor.persist(partial(_claim, world, actor, job, alone=False))
    if isinstance(claim, Refused) and claim.reason == "suspect":
        return actor.persist(partial(_claim, world, actor, job, alone=True))
    return claim


def _claim(world: World, actor: Actor, job: uuid.UUID, session: Session, *, alone: bool) -> Claim | Refused:
    return transitions.claim(
        session,
        job,
        worker=actor.name,
        lane=world.lane,
        lease_seconds=LEASE_SECONDS,
        reservation_seconds=RESERVATION_SECONDS,
        alone=alone,
    )


def _claim_other(world: World, actor: Actor) -> object:
    assert world.other is not None
    return claim_job(world, actor, world.other)


register("claim", lambda world, actor: claim_job(world, actor, world.job))
register("claim_other", _claim_other, has_other)


def open_call(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Open one more call, under an id that is made before, so that the transaction can be repeated."""
    new, call_id = new_call(world.lane, "summarise part 2"), uuid.uuid4()
    return actor.persist(lambda session: calls.open_call(session, claim.job_id, claim.generation, new, call_id))


def save_answer(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Close the call and save its answer in one transaction; if the claim is lost, only close the call."""

    def save(session: Session) -> str:
        if call is not None:
            calls.close_call(session, call, ANSWERED)
            lanes.record_success(session, world.lane, call, spread_seconds=transitions.LANE_SPREAD_SECONDS)
        checkpoints.save(session, claim, STEP, SavedStep("answer", {}), next_step=SAVE_STEP, done=1, total=1)
        return "saved"

    try:
        return actor.persist(save)
    except (ClaimLost, CancelRequested):
        if call is not None:
            actor.persist(lambda session: calls.close_call(session, call, ANSWERED))
        raise


def progress(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Record the step that begins."""
    return actor.persist(lambda session: transitions.progress(session, claim, step=READ_STEP, done=0, total=0))


def succeed(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Save the result."""
    text = f"the result of generation {claim.generation}"
    return actor.persist(lambda session: transitions.succeed(session, claim, text=text, facts={}))


def retry_later(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """End the attempt, and try again later."""
    retry = partial(transitions.retry_later, claim=claim, category=Category.OVERLOADED, delay_seconds=200)
    return actor.persist(retry)


def fail(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """End the attempt and the job."""
    return actor.persist(lambda session: transitions.fail(session, claim, category=Category.INVALID_DOCUMENT))


def release(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Hand the job back, since the worker shuts down."""
    return actor.persist(partial(transitions.release, claim=claim, reason="shutdown", interrupted=True))


def release_to_poll(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Hand the job back until the response at the provider may be complete."""
    return actor.persist(
        partial(transitions.release, claim=claim, reason="waits_at_provider", interrupted=False, wait_seconds=2)
    )


def release_behind_lane(world: World, actor: Actor, claim: Claim, call: uuid.UUID | None) -> object:
    """Hand the job back, since the lane was closed when the worker asked."""
    closed = world.closed or Closed(LaneState.OPEN, 1.0, None)
    behind = partial(transitions.release, claim=claim, reason="lane", interrupted=False, behind=(world.lane, closed))
    return actor.persist(behind)


def _told(work: Callable[[], object]) -> object:
    try:
        return work()
    except (ClaimLost, CancelRequested, JobError) as refused:
        return type(refused).__name__


def _of_held(of_claim: OfClaim) -> Run:
    def run(world: World, actor: Actor) -> object:
        claim = world.claim
        assert claim is not None
        return _told(lambda: of_claim(world, actor, claim, world.call))

    return run


def _of_lost(of_claim: OfClaim) -> Run:
    def run(world: World, actor: Actor) -> object:
        claim = world.late_claim
        assert claim is not None
        return _told(lambda: of_claim(world, actor, claim, world.late_call))

    return run


OF_CLAIM: tuple[OfClaim, ...] = (
    open_call, save_answer, progress, succeed, retry_later, fail, release, release_to_poll, release_behind_lane,
)  # fmt: skip
for of_claim in OF_CLAIM:
    register(of_claim.__name__, _of_held(of_claim), lambda world: world.claim is not None)
    register(f"late_{of_claim.__name__}", _of_lost(of_claim), lambda world: world.late_claim is not None)


# A call can be closed whoever holds the job, since its outcome is a fact about the provider.


def _close_call(report: CallReport, mark_lane: Callable[[World, Session, uuid.UUID], object] | None = None) -> Run:
    def run(world: World, actor: Actor) -> object:
        call = world.call or world.late_call
        assert call is not None

        def close(session: Session) -> bool:
            closed = calls.close_call(session, call, report)
            if closed and mark_lane is not None:
                mark_lane(world, session, call)
            return closed

        return actor.persist(close)

    return run


def _cool(world: World, session: Session, call: uuid.UUID) -> object:
    return lanes.cool(session, world.lane, seconds=None, category=Category.RATE_LIMITED, code=None)


def _stop(world: World, session: Session, call: uuid.UUID) -> object:
    return lanes.stop(session, world.lane, category=Category.AUTH, code="bad_key")


def _record_success(world: World, session: Session, call: uuid.UUID) -> object:
    return lanes.record_success(session, world.lane, call, spread_seconds=transitions.LANE_SPREAD_SECONDS)


def _note_response(world: World, actor: Actor) -> object:
    call = world.call or world.late_call
    assert call is not None
    actor.persist(lambda session: calls.note_response(session, call, RESPONSE, world.lane))
    return ResponseNoted(RESPONSE)


def _has_call(world: World) -> bool:
    return (world.call or world.late_call) is not None


register("close_call", _close_call(ANSWERED), _has_call)
register("close_rate_limited_call", _close_call(RATE_LIMITED, _cool), _has_call)
register("close_call_with_refused_key", _close_call(KEY_REFUSED, _stop), _has_call)
register("close_call_with_server_error", _close_call(SERVER_ERROR, _record_success), _has_call)
register("note_response", _note_response, lambda world: world.is_background, Effect.EXCEEDS_LIMITS)
