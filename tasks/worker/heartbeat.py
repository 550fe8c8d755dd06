"""One heartbeat for all claims of a process: renews their leases in one statement, and learns of cancels and losses.

It has a database connection of its own, so that it never waits behind work. When that connection's session ends in
PostgreSQL, the others see that this process is gone, see `lost_claims`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import SESSION, Database, error_name
from tasks.ledger.jobs import leases
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.states import State
from tasks.settings import Settings
from tasks.worker.endings import Stopped, StopReason

log = structlog.get_logger()

TRY_AGAIN_SECONDS = 0.25


class HeldClaim:
    """Represents a claim while a thread works under it. `until` ends the attempt's time, by the monotonic clock."""

    def __init__(
        self,
        claim: Claim,
        *,
        attempt_seconds: float,
        reservation_seconds: float,
        after_reading: Callable[[], None] | None = None,
    ) -> None:
        self.claim = claim
        self.after_reading = after_reading or (lambda: None)
        self.until = time.monotonic() + min(attempt_seconds, claim.seconds_left)
        self.reserved_until = time.monotonic() + min(reservation_seconds, claim.seconds_left)
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

    def extend(self, by_seconds: float) -> None:
        """Give the attempt back time in which it could only wait, at most up to its reservation."""
        self.until = min(self.until + by_seconds, self.reserved_until)

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
    def hold(self, claim: Claim, *, after_reading: Callable[[], None] | None = None) -> Iterator[HeldClaim]:
        """Renew this claim while the block runs. `after_reading` is called once the document has been read."""
        held_claim = HeldClaim(
            claim,
            attempt_seconds=self._settings.attempt_seconds,
            reservation_seconds=self._settings.reservation_seconds,
            after_reading=after_reading,
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
        settings = self._settings
        with self._database.transaction() as session:
            renewal = leases.renew(session, [held.claim for held in held_claims], lease_seconds=settings.lease_seconds)
            leases.record_heartbeat(
                session,
                self._name,
                queue=settings.queue_name,
                slots=self._slots,
                gap_seconds=settings.renewal.gap_seconds,
                unrenewed=renewal.unrenewed,
                has_session=session.connection().info[SESSION],
            )
        if renewal.unrenewed:
            log.warning("heartbeat.unrenewed", jobs=[job_id.hex for job_id in renewal.unrenewed])
        for held in held_claims:
            state = renewal.states.get(held.claim.job_id)
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
        while True:
            pause = self._settings.heartbeat_seconds
            try:
                self.beat()
            except SQLAlchemyError as error:
                log.warning("heartbeat.missed", error=error_name(error))
                pause = min(pause, TRY_AGAIN_SECONDS)
            if stopping.wait(pause):
                return
