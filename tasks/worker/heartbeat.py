"""One heartbeat for all claims of a process: renews their leases in one statement, and hears "cancel" and "lost"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Database
from tasks.ledger.jobs import leases
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.states import State
from tasks.settings import Settings

log = structlog.get_logger()

HEAR_WITHIN_SECONDS = 2.0  # a cancel is heard at the latest so long after it was asked for


class StopReason(StrEnum):
    """Why work under a claim is to stop."""

    CANCEL = "cancel"
    LOST = "lost"
    SHUTDOWN = "shutdown"


class Stopped(Exception):
    """Work under a claim was told to stop."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class HeldClaim:
    """A claim while somebody works under it. `until` is when its attempt's time is over, by the monotonic clock."""

    def __init__(self, claim: Claim, *, attempt_seconds: float, reservation_seconds: float) -> None:
        self.claim = claim
        self.until = time.monotonic() + attempt_seconds
        self.reserved_until = time.monotonic() + reservation_seconds
        self.stopping = threading.Event()
        self.reason: StopReason | None = None
        self._at_stop: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def stop(self, reason: StopReason) -> None:
        """Tell whoever works under this claim to stop. The first reason stays."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self.stopping.set()
            at_stop = list(self._at_stop)
        for action in at_stop:
            action()

    def at_stop(self, action: Callable[[], object]) -> None:
        """Run this when told to stop; at once if that was before."""
        with self._lock:
            if self.reason is None:
                self._at_stop.append(action)
                return
        action()

    def check(self) -> None:
        """Go on, or raise Stopped."""
        if self.reason is not None:
            raise Stopped(self.reason)

    @property
    def seconds_left(self) -> float:
        """What is left of the attempt's time; negative when it is over."""
        return self.until - time.monotonic()


class Heartbeat:
    """The claims this process holds, and the thread that keeps them."""

    def __init__(self, database: Database, settings: Settings, name: str, slots: int) -> None:
        self._database = database
        self._settings = settings
        self._name = name
        self._slots = slots
        self._held: dict[Claim, HeldClaim] = {}
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[HeldClaim]:
        """Keep this claim alive while the block runs."""
        held = HeldClaim(
            claim,
            attempt_seconds=self._settings.attempt_seconds,
            reservation_seconds=self._settings.reservation_seconds,
        )
        with self._lock:
            self._held[claim] = held
        try:
            yield held
        finally:
            with self._lock:
                del self._held[claim]

    def held(self) -> list[HeldClaim]:
        """Every claim that is being worked under right now."""
        with self._lock:
            return list(self._held.values())

    def beat(self) -> None:
        """Renew every claim once, and pass on what was heard. Raises SQLAlchemyError when the database is away."""
        held = self.held()
        with self._database.transaction() as session:
            leases.record_heartbeat(session, self._name, queue=self._settings.queue_name, slots=self._slots)
            standing = leases.renew(session, [one.claim for one in held], lease_seconds=self._settings.lease_seconds)
        for one in held:
            state = standing.get(one.claim.job_id)
            if state is None:
                one.stop(StopReason.LOST)
            elif state is State.CANCEL_REQUESTED:
                one.stop(StopReason.CANCEL)

    def stop_all(self, reason: StopReason) -> None:
        """Tell everybody to stop, for instance since the process is about to end."""
        for one in self.held():
            one.stop(reason)

    def overdue(self) -> list[HeldClaim]:
        """Claims still worked under although their reservation is over: their slots do not come back."""
        return [one for one in self.held() if time.monotonic() > one.reserved_until]

    def run(self, stopping: threading.Event) -> None:
        """Beat until told to stop. The first beat comes at once: until then, pages say that no worker is there."""
        interval = min(self._settings.lease_seconds / 3, HEAR_WITHIN_SECONDS)
        while True:
            try:
                self.beat()
            except SQLAlchemyError as error:
                log.warning("heartbeat.missed", error=type(error).__name__)
            if stopping.wait(interval):
                return
