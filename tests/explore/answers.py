"""Answers that operations got: an answer is a promise, too, so it must agree with the rows and with other answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy.exc import DBAPIError

from tasks.database import error_name
from tasks.ledger.jobs.accept import AcceptedJob
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.jobs.leases import Renewal
from tasks.ledger.states import HELD, Event, State
from tests.explore.actor import AnswerLost, Crashed
from tests.explore.operations.by_operators import Drained
from tests.explore.operations.by_workers import ResponseNoted
from tests.explore.operations.registry import Effect
from tests.explore.snapshot import Snapshot
from tests.explore.world import World

VICTIM = "QueryCanceled"


def describe(answer: object) -> str:
    """Return an answer in a few words."""
    if isinstance(answer, Claim):
        return f"claim of generation {answer.generation}"
    if isinstance(answer, AcceptedJob):
        return "accepted" if answer.created else "known"
    if isinstance(answer, Renewal):
        return f"renewed {len(answer.states) - len(answer.unrenewed)} of {len(answer.states)}"
    if isinstance(answer, BaseException):
        return error_name(answer)
    return str(answer)


def broken_answers(
    answers: Sequence[object], snapshot: Snapshot, world: World, effects: Collection[Effect]
) -> list[str]:
    """Return a sentence for each answer that must not be given, or that is not true."""
    return [
        *broken_by_errors(answers),
        *_claims(answers),
        *_renewals(answers, snapshot, world),
        *_states(answers, snapshot, world),
        *_drains(answers, snapshot),
        *(() if Effect.CANCELS_RESPONSES in effects else _responses(answers, snapshot)),
    ]


def broken_by_errors(answers: Sequence[object]) -> Iterator[str]:
    """Yield a sentence for each error that no operation may end with."""
    for answer in answers:
        if isinstance(answer, DBAPIError) and error_name(answer) == VICTIM:
            continue  # the victim of a deadlock: the search reports those
        if isinstance(answer, BaseException) and not isinstance(answer, Crashed | AnswerLost):
            yield f"an operation raised {error_name(answer)}: {str(answer).splitlines()[0] if str(answer) else ''}"


def _claims(answers: Sequence[object]) -> Iterator[str]:
    claims = [(answer.job_id, answer.generation) for answer in answers if isinstance(answer, Claim)]
    if len(set(claims)) < len(claims):
        yield "two workers were given the same claim"


def _renewals(answers: Sequence[object], snapshot: Snapshot, world: World) -> Iterator[str]:
    """No time passes while operations run, so a lease that was renewed is not over."""
    expired = {
        (event["job_id"], event["generation"] - 1) for event in snapshot["events"] if event["event"] == Event.EXPIRE
    }
    claims = [claim for claim in (world.claim, world.late_claim) if claim is not None]
    for answer in answers:
        if isinstance(answer, Renewal):
            renewed = set(answer.states) - set(answer.unrenewed)
            # Of two claims on one job only the later can have been renewed.
            current = max(claims, key=lambda claim: claim.generation)
            if current.job_id in renewed and (str(current.job_id), current.generation) in expired:
                yield "a lease was renewed, and the job was taken back all the same"


def _exists(accepted: AcceptedJob, snapshot: Snapshot) -> bool:
    return not snapshot["accounts"] or str(accepted.job_id) in {job["id"] for job in snapshot["jobs"]}


def _states(answers: Sequence[object], snapshot: Snapshot, world: World) -> Iterator[str]:
    """A final state that a worker or a user was told is in the job's history, unless the job was deleted."""
    history = {State(event["state"]) for event in snapshot.by_job("events")[str(world.job)]}
    for answer in answers:
        if isinstance(answer, State) and history and answer not in history:
            yield f"somebody was told {answer}, which the job never was"
    for answer in answers:
        if isinstance(answer, AcceptedJob) and history and not _exists(answer, snapshot):
            yield "somebody was told of a job that does not exist"


def _drains(answers: Sequence[object], snapshot: Snapshot) -> Iterator[str]:
    held = sum(State(job["state"]) in HELD for job in snapshot["jobs"])
    is_drained = any(gate["claims_stopped"] for gate in snapshot["gates"])
    for answer in answers:
        if isinstance(answer, Drained) and is_drained and held > answer.active:
            yield f"an operator was told that {answer.active} jobs are held after the drain, and {held} are"


def _responses(answers: Sequence[object], snapshot: Snapshot) -> Iterator[str]:
    known = {row["response_id"] for row in snapshot["calls"] + snapshot["left_responses"]}
    for answer in answers:
        if isinstance(answer, ResponseNoted) and answer.response_id not in known:
            yield "the id of a response was noted, and is lost"
