"""The stage: lets one actor at a time go on, and sees which of them wait for locks and which are in a deadlock."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection, Sequence

from psycopg.waiting import Ready, Wait
from sqlalchemy import create_engine, text

from tests.explore.actor import Actor, Order, Status
from tests.explore.footprint import NOTHING, Footprint, wait_for_each_other

Work = Callable[[Actor], object]
SOON_MS, LATE_MS = 3, 100
STUCK_SECONDS = 30.0
BLOCKERS = text("SELECT pid, pg_blocking_pids(pid) FROM unnest(CAST(:pids AS int[])) pid")


class Stuck(Exception):
    """Raised when an actor neither goes on nor waits for another one."""


class Stage:
    """Holds the actors, and a connection of its own that watches their locks."""

    def __init__(self, url: str, actors: int) -> None:
        self.actors = [Actor(index, url) for index in range(actors)]
        self.playing: list[Actor] = []
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"prepare_threshold": None})
        self._watch = self._engine.connect()

    def begin(self, works: Sequence[Work], lost_answers: Collection[int] = ()) -> None:
        """Begin these works, each by an actor. `lost_answers` are commits of the first whose answers get lost."""
        self.playing = self.actors[: len(works)]
        for actor in self.playing:
            actor.status, actor.pending = Status.DONE, NOTHING
        for actor, work in zip(self.playing, works, strict=True):
            actor.begin(work, frozenset(lost_answers) if actor.index == 0 else frozenset())
            self._settle(SOON_MS)

    def ready(self) -> list[int]:
        """Return the actors that are stopped before a step."""
        return [actor.index for actor in self.playing if actor.status is Status.READY]

    def blocked(self) -> list[int]:
        """Return the actors that wait for a lock."""
        return [actor.index for actor in self.playing if actor.status is Status.BLOCKED]

    @property
    def over(self) -> bool:
        """Return True if every work has ended."""
        return all(actor.status is Status.DONE for actor in self.playing)

    @property
    def in_deadlock(self) -> bool:
        """Return True if nobody can go on: every actor that has not ended waits for a lock of another one."""
        return not self.over and not self.ready()

    def step(self, index: int, order: Order = Order.GO) -> Footprint:
        """Let this actor take its step, and return what it did, with what others could do because of it."""
        actor = self.actors[index]
        step = actor.pending
        freed = self._wake_blocked()
        if step.commit:
            for other in freed:
                step = step.joined(other.pending)
        others = [other for other in self.playing if other is not actor and other.status is not Status.DONE]
        expects_to_wait = bool(freed) or any(
            wait_for_each_other(other.transaction_so_far.locks, step.locks) for other in others
        )
        actor.resume(order)
        self._settle(SOON_MS if expects_to_wait else LATE_MS)
        return step

    def cancel(self, index: int) -> None:
        """Cancel the statement of this actor: it is the victim of a deadlock."""
        self._wake_blocked()
        self._watch.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": self.actors[index].pid})
        self._settle(LATE_MS, cancelled=index)

    def abandon(self) -> None:
        """End every work here."""
        while not self.over:
            if self.ready():
                self.step(self.ready()[0], Order.ABANDON)
            else:
                self.cancel(self.blocked()[0])

    def _wake_blocked(self) -> list[Actor]:
        blocked = [actor for actor in self.playing if actor.status is Status.BLOCKED]
        for actor in blocked:
            actor.status = Status.RUNNING
        return blocked

    def _settle(self, patience_ms: int, cancelled: int | None = None) -> None:
        """Pass answers of the server on, until no actor waits for one, except those that wait for another's lock."""
        end_at = time.monotonic() + STUCK_SECONDS
        while running := [actor for actor in self.playing if actor.status is Status.RUNNING]:
            answered = self._poll(running, patience_ms)
            for actor, ready in answered:
                actor.resume(ready)
                cancelled = None if actor.index == cancelled else cancelled
            if not answered:
                self._mark_blocked(running, cancelled)
                patience_ms = min(LATE_MS, patience_ms * 2)
                if time.monotonic() > end_at:
                    raise Stuck([(actor.name, actor.status, actor.pending.brief) for actor in self.playing])

    def _poll(self, running: list[Actor], patience_ms: int) -> list[tuple[Actor, int]]:
        poll = select.poll()
        by_socket = {actor.socket[0]: actor for actor in running}
        for number, actor in by_socket.items():
            wanted = actor.socket[1]
            poll.register(
                number, (select.POLLIN if wanted & Wait.R else 0) | (select.POLLOUT if wanted & Wait.W else 0)
            )
        return [
            (
                by_socket[number],
                (Ready.R if flags & ~select.POLLOUT else 0) | (Ready.W if flags & select.POLLOUT else 0),
            )
            for number, flags in poll.poll(patience_ms)
        ]

    def _mark_blocked(self, running: list[Actor], cancelled: int | None) -> None:
        """Mark the actors as blocked that wait for an actor which does not go on by itself."""
        pids = {actor.pid for actor in self.playing}
        rows = self._watch.execute(BLOCKERS, {"pids": [actor.pid for actor in running]}).all()
        blockers = {pid: set(others) & pids for pid, others in rows}
        moving = {actor.pid for actor in running if not blockers[actor.pid]}
        for actor in running:
            if blockers[actor.pid] and not blockers[actor.pid] & moving and actor.index != cancelled:
                actor.status = Status.BLOCKED

    def close(self) -> None:
        """Close all connections."""
        for actor in self.actors:
            actor.close()
        self._watch.close()
        self._engine.dispose()
