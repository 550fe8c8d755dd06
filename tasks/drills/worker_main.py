"""python -m tasks.drills.worker_main COMMAND …    runs `python -m tasks COMMAND …` and ends together with its parent.

Its standard input is a pipe that its parent holds. A parent that is killed cannot end its children, but the pipe can.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading


def end_with_parent() -> None:
    """Wait until the other end of standard input is gone, then die as abruptly as a lost machine does."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    runpy.run_module("tasks", run_name="__main__", alter_sys=True)
