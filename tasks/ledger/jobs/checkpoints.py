"""Checkpoints: the saved answers of steps. Written under a claim, and read by the attempt that continues the job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.jobs.transitions import progress
from tasks.ledger.models import Checkpoint


@dataclass(frozen=True)
class SavedStep:
    """The saved answer of a step: its text, and measured facts about it."""

    text: str
    facts: Mapping[str, Any]


def save(session: Session, claim: Claim, step: str, saved: SavedStep, *, next_step: str, done: int, total: int) -> None:
    """Save the answer of a step and update the progress that pages show, in one transaction.

    A step that was saved before keeps its first answer: it was paid for, and a page may have shown it. Raises ClaimLost
    or CancelRequested.
    """
    progress(session, claim, step=next_step, done=done, total=total)
    session.execute(
        insert(Checkpoint)
        .values(job_id=claim.job_id, step=step, generation=claim.generation, text=saved.text, facts=dict(saved.facts))
        .on_conflict_do_nothing()
    )


def load(session: Session, job_id: uuid.UUID) -> dict[str, SavedStep]:
    """Return all saved steps of the job, by the name of the step."""
    rows = session.execute(
        select(Checkpoint.step, Checkpoint.text, Checkpoint.facts).where(Checkpoint.job_id == job_id)
    )
    return {step: SavedStep(text, facts) for step, text, facts in rows}
