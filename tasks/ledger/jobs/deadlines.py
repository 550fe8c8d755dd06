"""Ends a job at its deadline, with what it waited for as the cause."""

from __future__ import annotations

import uuid

from sqlalchemy import func
from sqlalchemy.orm import Session

from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models import Job
from tasks.ledger.states import State


def end_at_deadline(session: Session, job_id: uuid.UUID) -> State | None:
    """Fail a waiting job whose deadline has passed. The cause is what it waited for.

    That is the closed lane, the operator who has paused the work, or a free worker. The UPDATE compares the deadline
    again, since the job may have been replayed after it was found late. Returns None if it is not late or not waiting.
    """
    lane_category = lanes.closed_category(session, job_id)
    late_code = "paused" if gate.load_for_job(session, job_id).is_paused else "not_done_in_time"
    category, code = (Category.DEADLINE, late_code) if lane_category is None else (lane_category, "lane_closed")
    return transitions.fail_waiting(
        session, job_id, Job.deadline_at <= func.clock_timestamp(), category=category, code=code
    )
