"""Runs commands at the same time, and reports how each ended and how long it took.

python -m tests.support.side_by_side < COMMANDS    one command a line; exit code 1 if one of them failed

It shows all output of a command that failed, and the last line of one that succeeded.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """Holds the result of a command."""

    command: str
    code: int
    seconds: float
    output: str

    @property
    def report(self) -> str:
        """Return one line with how it ended; after a failure, with all of the output before it."""
        line = f"{'failed' if self.code else 'ok':<6} {self.seconds:5.1f} s  {self.command}"
        if self.code:
            return f"{self.output}\n{line}"
        return f"{line}  {self.output.strip().rpartition(chr(10))[2]}".rstrip()


def run(command: str) -> Ended:
    """Run one command and wait for its end."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        return Ended(command, 127, time.monotonic() - began, str(error))
    return Ended(command, done.returncode, time.monotonic() - began, done.stdout)


def main(commands: list[str]) -> int:
    """Run all commands, and print each report as soon as its command has ended. Returns 1 if one failed, else 0."""
    codes = []
    with ThreadPoolExecutor(len(commands)) as threads:
        for ended in as_completed([threads.submit(run, command) for command in commands]):
            print(ended.result().report, flush=True)
            codes.append(ended.result().code)
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read().splitlines()))
