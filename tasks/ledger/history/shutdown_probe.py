"""Measures how long a host lets a process live after the signal to stop: a process waits for it and records its time.

A killed process cannot report its end. But its last report is in the database, with the time of the database's clock.
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
    """A process that waits until the host stops it, and records how long it lives after the first signal.

    `signalled_at` is None if it got no signal. `ended_at` is None if it was killed, or still runs.
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
    """The result of the newest measurement. `signal` None: the process was killed without a signal before.

    `lived_seconds` is the shortest time that it can have lived after the first signal. `ended` True: it was not killed
    and stopped waiting for it.
    """

    at: datetime
    signal: str | None
    signals: int
    lived_seconds: float
    ended: bool
    still_lives: bool


def begin(session: Session, name: str) -> None:
    """Record that this process now waits to be stopped."""
    session.execute(insert(GraceProbe).values(name=name).on_conflict_do_nothing())


def beat(session: Session, name: str, *, signal: str | None = None) -> None:
    """Record that this process still runs, and the signal that has just arrived, if any."""
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
    """Record that the measurement is over, and the process was not killed."""
    session.execute(update(GraceProbe).where(GraceProbe.name == name).values(ended_at=func.clock_timestamp()))


def newest(session: Session, *, silent_seconds: float) -> Grace | None:
    """Return the newest measurement. Returns None if there is none.

    A process that has reported nothing for `silent_seconds` counts as killed.
    """
    row = session.execute(
        select(GraceProbe, GraceProbe.seen_at > func.now() - seconds(silent_seconds))
        .order_by(GraceProbe.started_at.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    probe, seen_recently = row
    lived = 0.0 if probe.signalled_at is None else (probe.seen_at - probe.signalled_at).total_seconds()
    ended = probe.ended_at is not None
    return Grace(probe.seen_at, probe.signal, probe.signals, max(0.0, lived), ended, seen_recently and not ended)
