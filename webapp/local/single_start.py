"""Allows one demo per directory by a lock that ends with its process, and cleans up after a start that was killed."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from webapp.local.errors import CannotStart

PATIENCE_SECONDS = 15


class SingleStart:
    """Represents the lock of the only demo in a directory. It lasts until this process ends, for whatever reason."""

    def __init__(self, directory: Path, address: str) -> None:
        """Take the lock. Raises CannotStart with the process and the address of its holder."""
        self._children = directory / "children"
        self._file = _opened(directory / "lock")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotStart(_who_runs(self._file)) from None
        self._file.truncate(0)
        self._file.write(json.dumps({"pid": os.getpid(), "address": address}))
        self._file.flush()

    def end_leftovers(self) -> None:
        """End the processes of an earlier start that was killed and could not end them itself."""
        left = []
        with suppress(OSError, ValueError):
            for pid, created in json.loads(self._children.read_text()):
                with suppress(psutil.NoSuchProcess):
                    child = psutil.Process(pid)
                    if child.create_time() == created:  # otherwise the number belongs to another process by now
                        child.terminate()
                        left.append(child)
        for child in psutil.wait_procs(left, timeout=PATIENCE_SECONDS)[1]:
            child.kill()
        self._children.unlink(missing_ok=True)

    def note_children(self) -> None:
        """Record the processes that this one has started, for `end_leftovers` of the next start."""
        children = psutil.Process().children(recursive=False)
        self._children.write_text(json.dumps([[child.pid, child.create_time()] for child in children]))

    def end(self) -> None:
        """Release the lock after a clean stop."""
        self._children.unlink(missing_ok=True)
        self._file.truncate(0)
        self._file.close()


def _opened(file: Path) -> IO[str]:
    return open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+")


def _who_runs(file: IO[str]) -> str:
    try:
        found = json.loads(file.read())
        return f"It runs already: {found['address']} (process {found['pid']}). Stop it with Ctrl-C in its terminal."
    except (ValueError, KeyError):
        return "It starts or stops already in another terminal. Wait a moment, then try again."
