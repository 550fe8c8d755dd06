"""Runs web and worker in one container (`python -m webapp all`), for plans that start a single process."""

from __future__ import annotations

import argparse
import os
import sys

from tasks.settings import SettingsWrong
from tasks.startup.loading import check_web, load
from webapp import supervisor


def main(arguments: list[str] | None = None) -> int:
    """Replace this process by the supervisor of both. Returns 1 if the settings are unusable, 2 for a wrong command."""
    parser = argparse.ArgumentParser(prog="python -m webapp", description="The web side of a Waybill site.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("all", help="run web and worker together until told to stop")
    parser.parse_args(arguments)
    try:
        settings = load()
        check_web(settings)
    except SettingsWrong as wrong:
        print("\n".join(wrong.problems), file=sys.stderr)
        return 1
    # Exec keeps the supervisor small: the modules imported here to read the settings are not needed any more.
    file = supervisor.__file__
    os.execv(sys.executable, [sys.executable, "-P", file, f"{settings.shutdown_grace_seconds:g}"])


if __name__ == "__main__":
    sys.exit(main())
