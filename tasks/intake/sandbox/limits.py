"""The limits of the child process. The child applies them to itself before it reads a document.

Linux enforces all of them; other systems those that their `resource` module knows, and the worker's clock the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

from tasks.intake.types import Limits

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
# Address space is reserved in larger steps than memory is used, so it is only the outer limit.
_ADDRESS_SLACK = 256 * 1024 * 1024


def confine_for_life() -> None:
    """Make this process end with its parent, ignore signals for the worker, and write no file and no core dump."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    end_with_parent()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        # If the host runs out of memory, it should kill this process, not the worker.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")


def end_with_parent() -> None:
    """Have the system kill this process when its parent ends. Forks do not inherit this, so each process calls it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def confine_for_document(limits: Limits) -> None:
    """Limit memory and CPU time of this process, and forbid it to open files and connections. Cannot be undone."""
    sizes = memory_in_use()
    # CPU time counts from zero, since this process was forked for the document. The soft limit sends the signal that
    # names the reason.
    _limit("RLIMIT_CPU", limits.cpu_seconds + 1, extra=1)
    if sizes:
        _limit("RLIMIT_DATA", sizes["VmData"] + limits.memory_bytes)
        _limit("RLIMIT_AS", sizes["VmSize"] + limits.memory_bytes + _ADDRESS_SLACK)
    _limit("RLIMIT_NOFILE", 0)


def _limit(name: str, value: int, extra: int = 0) -> None:
    """Set the soft limit to `value` and the hard limit to `value + extra`, unless the hard limit is lower already."""
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY or value + extra < hard:
        hard = value + extra
    with contextlib.suppress(OSError, ValueError):  # a system that does not know this limit
        resource.setrlimit(number, (min(value, hard), hard))


def resident_bytes(usage: resource.struct_rusage) -> int:
    """Return the peak resident size in `usage` in bytes; systems count it in different units."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory_in_use() -> dict[str, int]:
    """Return VmData (private), VmSize (address space) and VmRSS (resident) of this process in bytes.

    Returns {} where there is no /proc.
    """
    try:
        with open(f"/proc/{os.getpid()}/status", encoding="ascii", errors="replace") as status:
            lines = [line.split() for line in status if line.startswith(("VmData:", "VmSize:", "VmRSS:"))]
    except OSError:
        return {}
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines}
