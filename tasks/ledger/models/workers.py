"""The table of the worker processes."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import Uuid, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base


class Worker(Base):
    """A worker process. Redis may lose its list of workers; this table shows which are alive.

    `left_at` is when it shut down; None while it works, and also if it went silent. `backend_pid` and
    `backend_started_at` name the session of its heartbeat in PostgreSQL, which ends with the process; None where a
    pooler stands between. `steady_since` is when its heartbeats began to arrive without a gap. `unrenewed` are the jobs
    that it still holds but could not renew, since their rows were locked.
    """

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str]
    slots: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    left_at: Mapped[datetime | None]
    backend_pid: Mapped[int | None]
    backend_started_at: Mapped[datetime | None]
    steady_since: Mapped[datetime] = mapped_column(server_default=func.now())
    unrenewed: Mapped[list[uuid.UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'"))
