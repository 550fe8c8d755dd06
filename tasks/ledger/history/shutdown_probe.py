"""How long a host lets a process live after it told it to stop: written down by one that waited to be stopped.

A process that is killed cannot say so; what it said last is in the database, by the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from tasks.ledger.models import Base
from tasks.ledger.sql_intervals import seconds


class GraceProbe(Base):
    """A process that waited to be stopped by the host, and wrote down for how long it lived after it was told.

    `signalled_at` None: it was never told. `ended_at` None: it was killed, or still lives.
    """

    __tablename__ = "grace_probes"

    name: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    signal: Mapped[str | None]
    signals: Mapped[int] = mapped_column(default=0)
    signalled_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


@dataclass(frozen=True)
class Grace:
    """What the newest measurement found. `signal` None: the process was killed without being told.

    `lived_seconds` is how long it lived after the first signal, at least. `ended` True: it gave up waiting for the end.
    """

    at: datetime
    signal: str | None
    signals: int
    lived_seconds: float
    ended: bool
    still_lives: bool


def begin(session: Session, name: str) -> None:
    """This process waits to be stopped."""
    session.execute(insert(GraceProbe).values(name=name).on_conflict_do_nothing())


def beat(session: Session, name: str, *, signal: str | None = None) -> None:
    """It lives. `signal` is one that just came."""
    values: dict[str, Any] = {"seen_at": func.clock_timestamp()}
    if signal is not None:
        first = func.coalesce(GraceProbe.signalled_at, func.clock_timestamp())
        values |= {
            "signal": func.coalesce(GraceProbe.signal, signal),
            "signalled_at": first,
            "signals": GraceProbe.signals + 1,
        }
    session.execute(update(GraceProbe).where(GraceProbe.name == name).values(**values))


def end(session: Session, name: str) -> None:
    """It was left alive for as long as anybody measures."""
    session.execute(update(GraceProbe).where(GraceProbe.name == name).values(ended_at=func.clock_timestamp()))


def newest(session: Session, *, silent_seconds: float) -> Grace | None:
    """The newest measurement; None if there is none. One that was silent for so long has been killed."""
    row = session.execute(
        select(GraceProbe, GraceProbe.seen_at > func.now() - seconds(silent_seconds))
        .order_by(GraceProbe.started_at.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    probe, seen_lately = row
    lived = 0.0 if probe.signalled_at is None else (probe.seen_at - probe.signalled_at).total_seconds()
    ended = probe.ended_at is not None
    return Grace(probe.seen_at, probe.signal, probe.signals, max(0.0, lived), ended, seen_lately and not ended)
