"""One heartbeat for all claims of a process: renews their leases in one statement, and learns of cancels and losses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Database
from tasks.ledger.jobs import leases
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.states import State
from tasks.settings import Settings
from tasks.worker.endings import Stopped, StopReason

log = structlog.get_logger()

HEAR_WITHIN_SECONDS = 2.0  # the worker learns of a cancel request at most this long after it was made


class HeldClaim:
    """Represents a claim while a thread works under it. `until` ends the attempt's time, by the monotonic clock."""

    def __init__(self, claim: Claim, *, attempt_seconds: float, reservation_seconds: float) -> None:
        self.claim = claim
        self.until = time.monotonic() + attempt_seconds
        self.reserved_until = time.monotonic() + reservation_seconds
        self.stopping = threading.Event()
        self.reason: StopReason | None = None
        self._at_stop: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def stop(self, reason: StopReason) -> None:
        """Ask the work under this claim to stop. Only the first reason is kept."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self.stopping.set()
            at_stop = list(self._at_stop)
        for action in at_stop:
            action()

    def at_stop(self, action: Callable[[], object]) -> None:
        """Run `action` when the claim is asked to stop; at once if that has already happened."""
        with self._lock:
            if self.reason is None:
                self._at_stop.append(action)
                return
        action()

    def check(self) -> None:
        """Raise Stopped if the work must stop."""
        if self.reason is not None:
            raise Stopped(self.reason)

    @property
    def seconds_left(self) -> float:
        """Return what is left of the attempt's time, in seconds; negative when it is over."""
        return self.until - time.monotonic()


class Heartbeat:
    """Keeps the claims that this process holds, and renews them."""

    def __init__(self, database: Database, settings: Settings, name: str, slots: int) -> None:
        self._database = database
        self._settings = settings
        self._name = name
        self._slots = slots
        self._held_claims: dict[Claim, HeldClaim] = {}
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[HeldClaim]:
        """Renew this claim while the block runs."""
        held_claim = HeldClaim(
            claim,
            attempt_seconds=self._settings.attempt_seconds,
            reservation_seconds=self._settings.reservation_seconds,
        )
        with self._lock:
            self._held_claims[claim] = held_claim
        try:
            yield held_claim
        finally:
            with self._lock:
                del self._held_claims[claim]

    def held_claims(self) -> list[HeldClaim]:
        """Return every claim that a thread is working under right now."""
        with self._lock:
            return list(self._held_claims.values())

    def beat(self) -> None:
        """Renew every claim once, and stop those that are cancelled or lost. Raises SQLAlchemyError."""
        held_claims = self.held_claims()
        with self._database.transaction() as session:
            leases.record_heartbeat(session, self._name, queue=self._settings.queue_name, slots=self._slots)
            states = leases.renew(
                session, [held.claim for held in held_claims], lease_seconds=self._settings.lease_seconds
            )
        for held in held_claims:
            state = states.get(held.claim.job_id)
            if state is None:
                held.stop(StopReason.LOST)
            elif state is State.CANCEL_REQUESTED:
                held.stop(StopReason.CANCEL)

    def stop_all(self, reason: StopReason) -> None:
        """Ask all work to stop, for instance because the process is about to end."""
        for held in self.held_claims():
            held.stop(reason)

    def overdue(self) -> list[HeldClaim]:
        """Return the claims whose work outlives their reservation: their slots do not come back."""
        return [held for held in self.held_claims() if time.monotonic() > held.reserved_until]

    def run(self, stopping: threading.Event) -> None:
        """Beat until `stopping` is set. The first beat comes at once: until then, pages say that no worker runs."""
        interval = min(self._settings.lease_seconds / 3, HEAR_WITHIN_SECONDS)
        while True:
            try:
                self.beat()
            except SQLAlchemyError as error:
                log.warning("heartbeat.missed", error=type(error).__name__)
            if stopping.wait(interval):
                return
