"""Random faults. One random source decides, so that a seed repeats the choices (not the timing)."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.chaos.services import Postgres, Redis, Workers

LEASE_SECONDS = 2.0
BETWEEN_SECONDS = (0.5, 1.6)
SHARES = {"ok": 80, "rate": 4, "status": 6, "drop": 4, "overloaded": 2, "auth": 1, "hang": 1, "drip": 2}
Step = dict[str, Any]


def behaviours(seed: str, count: int) -> list[Step]:
    """Return the provider's behaviour for each request: mostly a good response after a while, sometimes a failure."""
    draw = random.Random(f"{seed} provider")
    kinds = draw.choices(list(SHARES), list(SHARES.values()), k=count)
    details: dict[str, Callable[[], Step]] = {
        "ok": lambda: {"delay": round(draw.uniform(0.05, 1.5), 2)},
        "rate": lambda: {"retry_after": draw.choice([1, 1, 3])},
        "status": lambda: {"code": 500},
        "drop": lambda: {"seconds": 0.2},
        "overloaded": dict,
        "auth": dict,
        "hang": dict,
        "drip": lambda: {"every": 0.1, "count": draw.randint(1, 10)},
    }
    return [{"mode": kind, **details[kind]()} for kind in kinds]


class Trouble:
    """Causes one fault after the other. `happened` counts them by name."""

    def __init__(self, seed: str, postgres: Postgres, store: Redis, workers: Workers) -> None:
        self._draw = random.Random(f"{seed} trouble")
        self._postgres = postgres
        self._store = store
        self._workers = workers
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._next_at = time.monotonic() + 3
        self.happened: Counter[str] = Counter()
        self._kinds: dict[Callable[[], None], int] = {
            self.worker_killed: 5,
            self.worker_frozen: 3,
            self.worker_stopped: 2,
            self.redis_flushed: 2,
            self.redis_killed: 2,
            self.redis_frozen: 1,
            self.connections_cut: 2,
            self.postgresql_restarted: 1,
            self.postgresql_crashed: 1,
            self.database_read_only: 1,
            self.row_locked: 2,
            self.table_locked: 1,
            self.redis_full: 2,
        }
        self._first = self._draw.sample(list(self._kinds), len(self._kinds))

    def _by_weight(self) -> Callable[[], None]:
        return self._draw.choices(list(self._kinds), list(self._kinds.values()))[0]

    def step(self) -> None:
        """Undo the faults that are over by now; then cause the next one if it is due."""
        self._undo(time.monotonic())
        if time.monotonic() >= self._next_at:
            # Each kind once, in random order; from then on by its weight.
            kind = self._first.pop() if self._first else self._by_weight()
            kind()
            self.happened[kind.__name__.replace("_", " ")] += 1
            self._next_at = time.monotonic() + self._draw.uniform(*BETWEEN_SECONDS)

    def end(self) -> None:
        """Undo all faults now."""
        self._undo(float("inf"))

    def missing(self) -> list[str]:
        """Return the kinds that did not happen."""
        return [name for kind in self._kinds if not self.happened[name := kind.__name__.replace("_", " ")]]

    def _undo(self, now: float) -> None:
        due = [action for at, action in self._later if at <= now]
        self._later = [(at, action) for at, action in self._later if at > now]
        for action in due:
            action()

    def _in(self, seconds: float, action: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def worker_killed(self) -> None:
        worker = self._draw.choice(self._workers.running)
        self._workers.killed_at.setdefault(worker.popen.pid, time.time())
        worker.signal(signal.SIGKILL)

    def worker_frozen(self) -> None:
        worker = self._draw.choice(self._workers.running)
        self._workers.killed_at.setdefault(worker.popen.pid, time.time())
        worker.signal(signal.SIGSTOP)
        self._in(LEASE_SECONDS * self._draw.uniform(1.2, 2.5), lambda: worker.signal(signal.SIGCONT))

    def worker_stopped(self) -> None:
        self._draw.choice(self._workers.running).signal(signal.SIGTERM)

    def redis_flushed(self) -> None:
        if self._store.process.poll() is None and not self._later:
            self._store.flush()

    def redis_killed(self) -> None:
        if self._store.process.poll() is None:
            self._store.kill()
            self._in(self._draw.uniform(0.1, 2.5), self._store.start)

    def redis_frozen(self) -> None:
        process = self._store.process
        process.send_signal(signal.SIGSTOP)
        self._in(self._draw.uniform(0.5, 3), lambda: process.send_signal(signal.SIGCONT))

    def connections_cut(self) -> None:
        self._postgres.terminate_connections()

    def postgresql_restarted(self) -> None:
        self._postgres.stop(signal.SIGINT)
        self._postgres.start()

    def postgresql_crashed(self) -> None:
        self._postgres.stop(signal.SIGQUIT)
        time.sleep(self._draw.uniform(0.2, 2))
        self._postgres.start()

    def database_read_only(self) -> None:
        if not self._postgres.is_read_only:
            self._postgres.set_read_only(True)
            self._in(self._draw.uniform(0.5, 4), lambda: self._postgres.set_read_only(False))

    def row_locked(self) -> None:
        release = self._postgres.lock("SELECT id FROM jobs WHERE claimed_by IS NOT NULL LIMIT 1 FOR UPDATE")
        self._in(self._draw.uniform(1, 3 * LEASE_SECONDS), release)

    def table_locked(self) -> None:
        self._in(self._draw.uniform(0.5, 2), self._postgres.lock("LOCK TABLE jobs IN EXCLUSIVE MODE"))

    def redis_full(self) -> None:
        if self._store.process.poll() is None and not self._later:
            self._store.limit_memory("1mb")
            self._in(self._draw.uniform(0.5, 3), lambda: self._store.limit_memory("0"))
