"""Starts processes for a measurement, and reads the CPU time and memory of their trees."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")


@dataclass(frozen=True)
class Memory:
    """The memory of a process tree in MB, its threads and its processes.

    `pss` counts a shared page once for all processes that share it.
    """

    pss: float
    rss: float
    threads: int
    processes: int


def kept_variables() -> dict[str, str]:
    """Return the few variables of this process that others are given."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it that run now."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process tree, including processes that ended and were waited for."""
    total = 0.0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def memory(pid: int) -> Memory:
    """Return the memory of a process tree."""
    pss = rss = threads = count = 0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            full = process.memory_full_info()
            pss, rss = pss + full.pss, rss + full.rss
            threads, count = threads + process.num_threads(), count + 1
    return Memory(pss / 2**20, rss / 2**20, threads, count)


class Running:
    """A process in a session of its own, with its log. It is killed with its children when the block ends."""

    def __init__(self, command: Sequence[str | Path], variables: Mapping[str, str], folder: Path, log: Path) -> None:
        self.log = log
        self.began = time.time()
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                command,
                env={**kept_variables(), **variables},
                cwd=folder,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self.ready_after = 0.0

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill(tree(self.pid))

    @property
    def cpu(self) -> float:
        return cpu_seconds(self.pid)

    @property
    def memory(self) -> Memory:
        return memory(self.pid)

    def has_logged(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def wait_until(self, fact: Callable[[], bool], seconds: float = 60.0) -> float:
        """Wait for a fact, and return how long after the start it came.

        If it does not come, the process is killed. Raises RuntimeError.
        """
        end = time.time() + seconds
        while time.time() < end:
            if fact():
                return time.time() - self.began
            if self._popen.poll() is not None:
                break
            time.sleep(0.01)
        self._kill(tree(self.pid))
        raise RuntimeError(f"{self.log.name}: not ready\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self, patience: float = 15.0) -> None:
        """Ask it to end, and kill what is left of its tree after a while."""
        members = tree(self.pid)
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(patience)
        self._kill(members)

    def _kill(self, members: Sequence[psutil.Process]) -> None:
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait()
