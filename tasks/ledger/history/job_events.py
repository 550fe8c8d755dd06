"""The append-only record of what happened to a job."""

from __future__ import annotations

import uuid

from sqlalchemy import insert
from sqlalchemy.orm import Session

from tasks.ledger.models import JobEvent
from tasks.ledger.states import Event


def note(session: Session, job_id: uuid.UUID, event: Event, state: str, generation: int, **facts: object) -> None:
    """Record that `event` led the job to `state`.

    `facts` are counts, categories and names of workers, never text of a user or a provider. Those that are None are
    left out.
    """
    session.execute(
        insert(JobEvent).values(
            job_id=job_id,
            event=event,
            state=state,
            generation=generation,
            facts={key: value for key, value in facts.items() if value is not None},
        )
    )
