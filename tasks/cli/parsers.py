"""The parsers of the operators' commands: `python -m tasks ops …`, `jobs replay` and `jobs replays`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.cli import ops
from tasks.cli import replays as cli_replays
from tasks.cli.messages import LONGEST_NOTE
from tasks.cli.replays import PER_MINUTE
from tasks.ledger.errors import Category
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import replays
from tasks.settings import Settings

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_replays(choices: Commands) -> None:
    """Add `python -m tasks jobs replay` and `jobs replays`."""
    replay = choices.add_parser("replay", help="put failed jobs back: same identity, new deadline")
    replay.add_argument("jobs", nargs="*", metavar="ID_OR_REFERENCE")
    replay.add_argument(
        "--category", type=Category, choices=list(Category), metavar="CATEGORY", help="all with this cause"
    )
    replay.add_argument("--code", metavar="CODE", help="of these, only those with this code")
    replay.add_argument("--cause", type=Cause, choices=list(Cause), metavar="CAUSE", help=f"why: {', '.join(Cause)}")
    replay.add_argument("--note", type=_note, metavar="TEXT", help="why, in your words, for the history")
    replay.add_argument("--dry-run", action="store_true", help="only say what would happen")
    replay.add_argument(
        "--per-minute",
        type=_number(1, replays.MAX_PER_MINUTE),
        default=PER_MINUTE,
        metavar="N",
        help=f"how many go back in a minute (default: {PER_MINUTE})",
    )
    replay.set_defaults(run=lambda settings, given: _replay(settings, given, replay))
    list_replays = choices.add_parser("replays", help="the replays, how far they are; or stop one")
    list_replays.add_argument("--stop", metavar="ID", help="put no more of its jobs back")
    list_replays.add_argument("--note", type=_note, metavar="TEXT", help="why, for the history")
    list_replays.set_defaults(
        run=lambda settings, given: _print(
            cli_replays.stopped(settings, given.stop, note=given.note) if given.stop else cli_replays.listed(settings)
        )
    )


def _replay(settings: Settings, given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if bool(given.jobs) == bool(given.category):
        parser.error("name jobs, or a --category, not both")
    if given.dry_run:
        return _print(cli_replays.dry_run(settings, given.jobs, category=given.category, code=given.code))
    if not given.cause or not given.note:
        parser.error("--cause and --note are required: the history is to say why")
    return _print(
        cli_replays.replay(
            settings,
            given.jobs,
            category=given.category,
            code=given.code,
            cause=given.cause,
            note=given.note,
            per_minute=given.per_minute,
        )
    )


def add_decisions(commands: Commands) -> None:
    """Add `python -m tasks ops …`."""
    decide = commands.add_parser("ops", help="what an operator decides: pause, drain, resume, status")
    choices = decide.add_subparsers(required=True, metavar="DECISION")
    pause = choices.add_parser("pause", help="hand nothing more to the queue")
    drain = choices.add_parser("drain", help="let no attempt begin either, and wait until nothing is active")
    drain.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="wait at most so long (default: as long as a job may be held)"
    )
    resume = choices.add_parser("resume", help="let work go on, and calls to the AI provider be made again")
    resume.add_argument(
        "--at-once", type=_number(1, 100_000), metavar="N", help="at most so many jobs at the same time, until the next"
    )
    resume.add_argument("--keep-lane", action="store_true", help="leave a stopped lane to the AI provider stopped")
    for decision in (pause, drain, resume):
        decision.add_argument("--note", type=_note, metavar="TEXT", help="why, for the record")
    pause.set_defaults(run=lambda settings, given: _print(ops.pause(settings, note=given.note)))
    drain.set_defaults(run=_drain)
    resume.set_defaults(
        run=lambda settings, given: _print(
            ops.resume(settings, note=given.note, at_once=given.at_once, keep_lane=given.keep_lane)
        )
    )
    status = choices.add_parser("status", help="how the site stands")
    status.set_defaults(run=lambda settings, _: _print(ops.status(settings)))


def _number(minimum: int, maximum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"must be a number from {minimum} to {maximum}")
        return int(text)

    return number


def _note(text: str) -> str:
    note = text.strip()
    if len(note) > LONGEST_NOTE:
        raise argparse.ArgumentTypeError(f"may have at most {LONGEST_NOTE} characters")
    return note


def _drain(settings: Settings, given: argparse.Namespace) -> int:
    drained = ops.drain(settings, note=given.note, timeout=given.timeout, say=lambda line: print(line, flush=True))
    return 0 if drained else 1


def _print(lines: list[str]) -> int:
    print("\n".join(lines) if lines else "none")
    return 0
