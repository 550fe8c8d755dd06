"""Replays failed jobs: one or many, with a recorded cause, at a limited rate, until the same failure comes back.

A replay and each of its jobs are rows, so a replay continues when the worker that carries it out ends. Any number of
workers may carry on the same replay: each locks its row for one job, and `next_at` is the time of the next job.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import exists, func, insert, select, true, update
from sqlalchemy.orm import Session

from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate
from tasks.ledger.history import audit_log
from tasks.ledger.jobs import transitions
from tasks.ledger.models import Job
from tasks.ledger.models.control import Cause, Decided, ItemOutcome, Replay, ReplayItem, ReplayState
from tasks.ledger.replays.selection import FINISHED, WAITING, Choice, Verdict, evaluate, evaluated_jobs
from tasks.ledger.sql_intervals import seconds
from tasks.ledger.states import LaneState, State
from tasks.ledger.terms import ReplayTerms

MAX_PER_MINUTE = 600


def begin(
    session: Session,
    queue: str,
    choice: Choice,
    *,
    cause: Cause,
    note: str,
    by: str,
    per_minute: int,
    terms: ReplayTerms,
) -> uuid.UUID:
    """Insert a replay of the chosen jobs with its decision in the audit log, put the first job back, and return its id.

    Jobs that would be left alone are recorded as such at once.
    """
    chosen = evaluate(session, queue, choice)
    replay_id = uuid.uuid4()
    session.execute(
        insert(Replay).values(
            id=replay_id,
            queue=queue,
            cause=cause,
            note=note,
            by=by,
            category=choice.category,
            code=choice.code,
            per_minute=per_minute,
        )
    )
    _add_items(session, replay_id, chosen)
    audit_log.record(
        session,
        queue,
        Decided.REPLAY,
        by=by,
        note=note,
        cause=cause,
        replay=replay_id.hex,
        jobs=len(chosen),
        category=choice.category,
        code=choice.code,
        per_minute=per_minute,
    )
    carry_on(session, queue, terms, replay_id=replay_id)
    return replay_id


def _add_items(session: Session, replay_id: uuid.UUID, chosen: Sequence[Verdict]) -> None:
    now = session.execute(select(func.now())).scalar_one()
    # Lock order: jobs by id. Those that were deleted since they were chosen are left out.
    chosen_ids = [job.job_id for job in chosen]
    present = select(Job.id).where(Job.id.in_(chosen_ids)).order_by(Job.id).with_for_update(read=True, key_share=True)
    still_there = set(session.execute(present).scalars())
    items = [
        {
            "replay_id": replay_id,
            "job_id": job.job_id,
            "position": position,
            "category": job.category if job.state is State.FAILED else None,
            "outcome": None if job.why is None else ItemOutcome.LEFT_ALONE,
            "why": job.why,
            "done_at": None if job.why is None else now,
        }
        for position, job in enumerate(chosen)
        if job.job_id in still_there
    ]
    if items:
        session.execute(insert(ReplayItem), items)


def carry_on(
    session: Session, queue: str, terms: ReplayTerms, *, replay_id: uuid.UUID | None = None
) -> uuid.UUID | None:
    """Put back the next job that is due, or end a replay, and return the replay's id. Call it again until it is None.

    `replay_id` restricts this to one replay; None: any replay of the queue. Returns None if nothing is due. Nothing is
    due while an operator has paused the work or the lane is stopped: the jobs would only wait until their deadlines
    passed. Locks the replay's row, and skips replays that another worker has locked.
    """
    if wait_reason(session, queue, terms.lane) is not None:
        return None
    replay = session.execute(
        select(Replay)
        .where(
            Replay.queue == queue,
            Replay.state == ReplayState.RUNNING,
            Replay.next_at <= func.now(),
            true() if replay_id is None else Replay.id == replay_id,
        )
        .order_by(Replay.next_at)
        .limit(1)
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    ).scalar_one_or_none()
    if replay is None:
        return None
    if _same_failure_came_back(session, replay.id):
        _end(session, replay.id, ReplayState.STOPPED, "same_failure")
        return replay.id
    job_id = _next_job(session, replay.id)
    if job_id is not None:
        _process_item(session, replay, job_id, terms)
    if job_id is None or _next_job(session, replay.id) is None:
        _end(session, replay.id, ReplayState.FINISHED, "done")
    return replay.id


def _next_job(session: Session, replay_id: uuid.UUID) -> uuid.UUID | None:
    return session.execute(
        select(ReplayItem.job_id)
        .where(ReplayItem.replay_id == replay_id, ReplayItem.outcome.is_(None))
        .order_by(ReplayItem.position)
        .limit(1)
    ).scalar_one_or_none()


def _process_item(session: Session, replay: Replay, job_id: uuid.UUID, terms: ReplayTerms) -> None:
    """Put one job of the replay back or leave it alone, record which, and set the time of the next job."""
    why = _put_back(session, replay, job_id, terms)
    outcome = ItemOutcome.REPLAYED if why is None else ItemOutcome.LEFT_ALONE
    session.execute(
        update(ReplayItem)
        .where(ReplayItem.replay_id == replay.id, ReplayItem.job_id == job_id)
        .values(outcome=outcome, why=why, done_at=func.now())
    )
    if why is None:  # a job that is left alone does not count for the rate
        session.execute(
            update(Replay).where(Replay.id == replay.id).values(next_at=func.now() + seconds(60 / replay.per_minute))
        )


def _put_back(session: Session, replay: Replay, job_id: uuid.UUID, terms: ReplayTerms) -> str | None:
    """Replay one job, if its present state still allows it. It may have changed since it was chosen.

    Returns None if it was put back, otherwise the reason for which it was left alone.
    """
    why = _why_left_alone(session, replay, job_id)
    if why is not None:
        return why
    state = transitions.replay(
        session,
        job_id,
        deadline_seconds=terms.deadline_seconds,
        more_attempts=terms.more_attempts,
        cause=replay.cause,
        by=replay.by,
        replay_id=replay.id,
        by_rule=replay.category is not None,
    )
    if state is not None:
        return None
    return _why_left_alone(session, replay, job_id) or WAITING  # it has changed between the two statements


def _why_left_alone(session: Session, replay: Replay, job_id: uuid.UUID) -> str | None:
    row = session.execute(evaluated_jobs(without=replay.id).where(Job.id == job_id)).one_or_none()
    return FINISHED if row is None else row.why


def _same_failure_came_back(session: Session, replay_id: uuid.UUID) -> bool:
    """Return True if a job that was put back has failed again with the same category as before."""
    return bool(
        session.execute(
            select(
                exists().where(
                    ReplayItem.replay_id == replay_id,
                    ReplayItem.outcome == ItemOutcome.REPLAYED,
                    Job.id == ReplayItem.job_id,
                    Job.state == State.FAILED,
                    Job.error_category == ReplayItem.category,
                    Job.finished_at > ReplayItem.done_at,
                )
            )
        ).scalar_one()
    )


def wait_reason(session: Session, queue: str, lane: str) -> str | None:
    """Return the reason for which the queue's replays wait: `paused` or `lane_stopped`. Returns None if they do not."""
    if gate.load(session, queue).is_paused:
        return "paused"
    closed = lanes.check(session, lane)
    return "lane_stopped" if closed is not None and closed.state is LaneState.STOPPED else None


def stop(session: Session, queue: str, replay_id: uuid.UUID, *, by: str, note: str | None = None) -> bool:
    """Stop a replay for an operator, so that no more jobs are put back. Returns False if it had ended or is unknown."""
    if not _end(session, replay_id, ReplayState.STOPPED, "operator", by=by, queue=queue):
        return False
    audit_log.record(session, queue, Decided.STOP_REPLAY, by=by, note=note, replay=replay_id.hex)
    return True


def seconds_until_next(session: Session, queue: str) -> float | None:
    """Return the seconds until the next job may be put back; 0 if it may now. Returns None if no replay runs."""
    wait = session.execute(
        select(func.extract("epoch", func.min(Replay.next_at) - func.clock_timestamp())).where(
            Replay.queue == queue, Replay.state == ReplayState.RUNNING
        )
    ).scalar()
    return None if wait is None else max(0.0, float(wait))


def _end(
    session: Session,
    replay_id: uuid.UUID,
    state: ReplayState,
    because: str,
    *,
    by: str | None = None,
    queue: str | None = None,
) -> bool:
    ended = update(Replay).where(Replay.id == replay_id, Replay.state == ReplayState.RUNNING)
    if queue is not None:
        ended = ended.where(Replay.queue == queue)
    return bool(
        session.execute(
            ended.values(state=state, ended_at=func.now(), ended_because=because, ended_by=by).returning(Replay.id)
        ).all()
    )
