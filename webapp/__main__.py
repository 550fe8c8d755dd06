"""python -m webapp all: web and worker in one container, for plans that start one process."""

from __future__ import annotations

import argparse
import os
import sys

from tasks.settings import SettingsWrong
from tasks.startup.loading import check_web, load
from webapp import supervisor


def main(arguments: list[str] | None = None) -> int:
    """Become the keeper of both processes. 1: the settings will not do; 2: the command itself was wrong."""
    parser = argparse.ArgumentParser(prog="python -m webapp", description="The web side of a Waybill site.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("all", help="run web and worker together until told to stop")
    parser.parse_args(arguments)
    try:
        settings = load()
        check_web(settings)
    except SettingsWrong as wrong:
        print("\n".join(wrong.faults), file=sys.stderr)
        return 1
    # The same process goes on as a small one: what was imported here to read the settings is not needed any more.
    file = supervisor.__file__
    os.execv(sys.executable, [sys.executable, "-P", file, f"{settings.shutdown_grace_seconds:g}"])


if __name__ == "__main__":
    sys.exit(main())
