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
Step = dict[str, Any]


def behaviours(seed: str, count: int) -> list[Step]:
    """Return the provider's behaviour for each request: mostly a good response after a while, sometimes a failure."""
    draw = random.Random(f"{seed} provider")
    kinds = draw.choices(["ok", "rate", "status", "drop", "overloaded"], [84, 4, 6, 4, 2], k=count)
    details: dict[str, Callable[[], Step]] = {
        "ok": lambda: {"delay": round(draw.uniform(0.05, 1.5), 2)},
        "rate": lambda: {"retry_after": 1},
        "status": lambda: {"code": 500},
        "drop": lambda: {"seconds": 0.2},
        "overloaded": dict,
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
        }

    def step(self) -> None:
        """Undo the faults that are over by now; then cause the next one if it is due."""
        self._undo(time.monotonic())
        if time.monotonic() >= self._next_at:
            kind = self._draw.choices(list(self._kinds), list(self._kinds.values()))[0]
            kind()
            self.happened[kind.__name__.replace("_", " ")] += 1
            self._next_at = time.monotonic() + self._draw.uniform(*BETWEEN_SECONDS)

    def end(self) -> None:
        """Undo all faults now."""
        self._undo(float("inf"))

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
