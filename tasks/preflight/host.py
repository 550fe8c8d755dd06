"""Checks the memory that the host gives."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from pathlib import Path

from tasks.intake import Limits
from tasks.preflight.report_line import Finding, Level, judge
from tasks.settings import Settings

MEGABYTE = 2**20
# Loads the code of a worker, without its connections, and prints the proportional share of its memory.
WORKER_CHILD = """
import sys
import tasks.worker.process
if sys.argv[1] == "openai":
    import tasks.provider.openai_background
for line in open("/proc/self/smaps_rollup"):
    if line.startswith("Pss:"):
        print(int(line.split()[1]) * 1024)
"""


def memory(settings: Settings, cgroups: Path) -> Finding:
    """Check that the plan has enough memory for a worker and a document that is read beside it."""
    given, taken = memory_given(cgroups), memory_of_a_worker(settings.ai_provider)
    if given is None or taken is None:
        return Finding(Level.SKIP, "memory", "this system does not tell", "Linux does")
    reading = Limits.memory_bytes
    level = Level.FAIL if taken > given else judge(taken + reading <= given, Level.WARN)
    return Finding(
        level,
        "memory",
        f"{given / MEGABYTE:,.0f} MB given; a worker takes {taken / MEGABYTE:.0f} MB at its start, "
        f"and up to {reading / MEGABYTE:.0f} MB more while a document is read",
        "Take a larger plan, or large documents end as unreadable",
    )


def memory_given(cgroups: Path) -> int | None:
    """Return the smallest memory limit of this process, in bytes, of its control group or the machine; else None."""
    limits = []
    with contextlib.suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    own = _own_group()
    for name in ("memory.max", f"{own}/memory.max", "memory/memory.limit_in_bytes",
                 f"memory{own}/memory.limit_in_bytes"):  # fmt: skip
        try:
            limits.append(int((cgroups / name.lstrip("/")).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits, default=None)


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    groups = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    return groups.get("memory", groups.get("", "")).rstrip("/")


@functools.cache
def memory_of_a_worker(ai_provider: str) -> int | None:
    """Return the bytes that a worker takes with its code loaded, measured in a child process; None if unknown."""
    child = subprocess.run(
        [sys.executable, "-c", WORKER_CHILD, ai_provider], capture_output=True, text=True, timeout=60, check=False
    )
    return int(child.stdout) if child.returncode == 0 and child.stdout.strip() else None
