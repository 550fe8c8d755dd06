"""The processes of one drill: started by it, signalled by their id, and gone after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tasks.settings import Settings

ROOT = Path(__file__).parents[2]
NOT_FOR_CHILDREN = ("WAYBILL_DIE_AT", "AI_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WORKER_MAX_JOBS")
TIMES = {
    "CONNECT_TIMEOUT_SECONDS": "1",
    "PROVIDER_CALL_SECONDS": "12",
    "ATTEMPT_SECONDS": "15",
    "RESERVATION_SECONDS": "25",
    "RUNTIME_ALLOWANCE_SECONDS": "30",
    "JOB_DEADLINE_SECONDS": "60",
    "LEASE_SECONDS": "2",
    "SWEEP_SECONDS": "0.3",
    "SHUTDOWN_GRACE_SECONDS": "3",
    "MAX_ATTEMPTS": "3",
    "MAX_INTERRUPTIONS": "5",
    "DATABASE_POOL_SIZE": "2",
}
"""The budgets of a drill: the site's own nesting, short enough to see each of them end."""


def environment(settings: Settings, queue_name: str, base_url: str) -> dict[str, str]:
    """What a child is told: the host's own services, and everything else of the drill."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(NOT_FOR_CHILDREN)}
    services = {
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "REDIS_URL": settings.redis_url.get_secret_value(),
    }
    ours = {"QUEUE_NAME": queue_name, "AI_PROVIDER": "openai", "OPENAI_API_KEY": "drill", "OPENAI_BASE_URL": base_url}
    return {**inherited, **services, **TIMES, **ours}


class Child:
    """One process, and what it logged."""

    def __init__(self, command: list[str], variables: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by end())
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tasks.drills.worker_main", *command],
            cwd=ROOT,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C in the terminal is for the drill, which ends its children itself
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """All it has written so far."""
        return os.pread(self._log.fileno(), 10_000_000, 0).decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when it was killed."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone. One that has ended hears nothing."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()
