"""Asks the Makefile what its targets would do."""

from __future__ import annotations

import os
import subprocess

from tests.support.processes.fork_server import ROOT

SURROUNDINGS = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
"""The environment without the variables of an outer `make`: its flags and ARGS would apply to the inner one, too."""


def make(*arguments: str) -> list[str]:
    """Run make in the project and return the lines it prints. Raises CalledProcessError if it fails."""
    order = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(order, cwd=ROOT, env=SURROUNDINGS, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def commands_of(target: str, *variables: str) -> list[str]:
    """Return the commands that a target runs, without running them."""
    return make("-o", ".venv/installed", "-n", target, *variables)


def targets() -> set[str]:
    """Return the targets that `make help` lists."""
    return {line.split()[0] for line in make("help")}
