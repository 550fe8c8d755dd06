"""The processes of one drill: it starts them, sends them signals by their ids, and ends them."""

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
POISON = "This word ends a worker of a drill: mandrake."
POISONED = "WAYBILL_DRILL_POISON"
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
"""Sets the limits of a drill: nested as the site's are, but short, so that a drill can see each of them fire."""


def environment(settings: Settings, queue_name: str, base_url: str) -> dict[str, str]:
    """Return the environment of a child: the host's services, and the drill's own values for the rest."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(NOT_FOR_CHILDREN)}
    services = {
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "REDIS_URL": settings.redis_url.get_secret_value(),
    }
    own = {"QUEUE_NAME": queue_name, "AI_PROVIDER": "openai", "OPENAI_API_KEY": "drill", "OPENAI_BASE_URL": base_url}
    return {**inherited, **services, **TIMES, **own}


class Child:
    """Runs a process of a drill and keeps its log."""

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
        """Return the process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """Return the output so far."""
        return os.pread(self._log.fileno(), 10_000_000, 0).decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """Return the exit code: minus the signal's number if the process was killed; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process only. Has no effect if the process has ended."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Kill the process if it still runs, and close its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()
