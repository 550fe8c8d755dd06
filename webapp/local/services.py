"""Runs the PostgreSQL and Redis that come with packages, for the demo and the tests. Never for a real site.

python -m webapp.local.services DIRECTORY COMMAND …    run a command with both, and stop them after it
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from webapp.local.errors import CannotStart
from webapp.local.postgresql import postgresql
from webapp.local.redis import redis, redis_program


@contextmanager
def services(directory: Path, *, throwaway: bool = False) -> Iterator[dict[str, str]]:
    """Run both services while the block runs; yields the variables that point at them. Raises CannotStart.

    DATABASE_URL and REDIS_URL are used instead if the environment has them. `throwaway` gives up safety against power
    cuts for speed, and keeps no data; for tests.
    """
    with ExitStack() as stack:
        yield {
            "DATABASE_URL": os.environ.get("DATABASE_URL")
            or stack.enter_context(postgresql(directory / "postgresql", throwaway=throwaway)),
            "REDIS_URL": os.environ.get("REDIS_URL") or stack.enter_context(redis(directory / "redis")),
        }


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """Create a directory for a run, removed when the run ends."""
    return tempfile.TemporaryDirectory(prefix="waybill-")


def main(arguments: list[str]) -> int:
    """Run a command with both services. Returns its exit code; 1 if a service does not start, 2 for wrong usage."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory, *command = arguments
    try:
        with services(Path(directory), throwaway=True) as environment:
            variables = {**os.environ, **environment}
            if not os.environ.get("REDIS_URL"):  # a drill starts another one, and the program may be in a package
                variables["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{Path(redis_program()).parent}"
            return subprocess.call(command, env=variables)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
