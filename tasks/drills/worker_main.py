"""python -m tasks.drills.worker_main COMMAND …    runs `python -m tasks COMMAND …` and ends together with its parent.

Its standard input is a pipe that its parent holds. A parent that is killed cannot end its children, but the pipe can.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading
from typing import Any

from tasks.drills.processes import POISON, POISONED


def end_with_parent() -> None:
    """Wait until the other end of standard input is gone, then die as abruptly as a lost machine does."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def die_of_poison() -> None:
    """Let this process die when it reads a document with the poison, as if the container's memory were used up."""
    from tasks.intake import IntakePool

    read = IntakePool.read

    def read_or_die(self: IntakePool, data: bytes, *arguments: Any, **more: Any) -> Any:
        if POISON.encode() in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, data, *arguments, **more)

    IntakePool.read = read_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    if os.environ.get(POISONED):
        die_of_poison()
    runpy.run_module("tasks", run_name="__main__", alter_sys=True)
