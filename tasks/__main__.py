"""python -m tasks: the commands that run and operate a site. Output goes to stdout, the log to stderr."""

from __future__ import annotations

import argparse
import sys

from tasks.cli import jobs as cli_jobs
from tasks.cli import parsers
from tasks.cli.jobs import NotDone
from tasks.ledger.errors import JobError
from tasks.ledger.states import State
from tasks.observability import logs
from tasks.settings import Settings, SettingsWrong, docs
from tasks.startup.loading import load


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Return 0 if it was done, 1 if it could not be done, and 2 if the command itself was wrong."""
    given = parser().parse_args(arguments)
    if given.run is None:  # the list of settings does not depend on their values
        print(docs.page(), end="")
        return 0
    logs.configure()
    try:
        settings = load()
        return int(given.run(settings, given))
    except SettingsWrong as wrong:
        for problem in wrong.problems:
            print(problem, file=sys.stderr)
    except NotDone as error:
        print(error, file=sys.stderr)
    except JobError as error:
        print(f"The AI provider cannot be used: {error}. Check AI_PROVIDER and OPENAI_API_KEY.", file=sys.stderr)
    return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands and their options."""
    top = argparse.ArgumentParser(prog="python -m tasks", description="The back room of a Waybill site.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    worker = commands.add_parser("worker", help="work on jobs; runs dispatcher, scheduler and reconciler too")
    worker.add_argument("--slots", type=int, metavar="N", help="jobs worked on at once (default: WORKER_SLOTS)")
    worker.add_argument("--burst", action="store_true", help="end when nothing is left to do now")
    worker.set_defaults(run=work)
    commands.add_parser("dispatcher", help="only hand owed deliveries to the queue").set_defaults(run=dispatch)
    commands.add_parser("reconcile", help="one sweep: expired leases, passed deadlines").set_defaults(run=reconcile)
    drills = commands.add_parser("drills", help="stage failures on this host, with a scripted provider")
    drills.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    drills.add_argument("--staging", action="store_true", help="run although people's jobs are unfinished")
    drills.add_argument(
        "--at-once", type=int, default=3, metavar="N", help="drills played at the same time (default: 3)"
    )
    drills.add_argument("--list", action="store_true", help="only name the drills")
    drills.set_defaults(run=drill)
    _preflight_parser(commands.add_parser("preflight", help="whether this host can keep the promise"))
    commands.add_parser("settings", help="every setting with its default, as Markdown").set_defaults(run=None)
    _job_parsers(commands.add_parser("jobs", help="list, show, replay, cancel, export and import jobs"))
    parsers.add_decisions(commands)
    return top


def _preflight_parser(check: argparse.ArgumentParser) -> None:
    """Add the options of `python -m tasks preflight`."""
    check.add_argument("--call-provider", action="store_true", help="make one small call to the AI service, too")
    check.set_defaults(run=preflight)


def _job_parsers(jobs: argparse.ArgumentParser) -> None:
    """Add the commands of `python -m tasks jobs …`."""
    choices = jobs.add_subparsers(required=True, metavar="WHAT")
    list_jobs = choices.add_parser("list", help="the newest jobs, a line each")
    list_jobs.add_argument("--state", type=State, choices=list(State), metavar="STATE")
    list_jobs.add_argument("--category", metavar="CATEGORY", help="only those with this cause")
    list_jobs.add_argument("--limit", type=int, default=50, metavar="N")
    list_jobs.set_defaults(
        run=lambda settings, given: _say(
            cli_jobs.listed(settings, state=given.state, category=given.category, limit=given.limit)
        )
    )
    show = choices.add_parser("show", help="one job with its attempts, calls and events")
    show.add_argument("job", metavar="ID_OR_REFERENCE")
    show.set_defaults(run=lambda settings, given: _say(cli_jobs.shown(settings, given.job)))
    parsers.add_replays(choices)
    cancel = choices.add_parser("cancel", help="end a job, as its owner would")
    cancel.add_argument("job", metavar="ID_OR_REFERENCE")
    cancel.set_defaults(run=lambda settings, given: _say(cli_jobs.cancelled(settings, given.job)))
    export_all = choices.add_parser(
        "export", help="every row of the site as lines of JSON, to stdout; holds all documents"
    )
    export_all.set_defaults(run=export)
    import_all = choices.add_parser("import", help="fill an empty database with an export, from stdin")
    import_all.set_defaults(run=lambda settings, _: _say(cli_jobs.imported(settings, sys.stdin)))


def export(settings: Settings, _: argparse.Namespace) -> int:
    """Run `python -m tasks jobs export`."""
    cli_jobs.exported(settings, sys.stdout)
    return 0


def _say(lines: list[str]) -> int:
    print("\n".join(lines) if lines else "none")
    return 0


def work(settings: Settings, given: argparse.Namespace) -> int:
    """Run `python -m tasks worker`."""
    from tasks.worker.process import run_worker  # imported late: --help needs no SDK

    slots = settings.worker_slots if given.slots is None else given.slots
    if slots < 1:
        raise SettingsWrong(["--slots must be at least 1."])
    return run_worker(settings, slots=slots, burst=given.burst)


def dispatch(settings: Settings, _: argparse.Namespace) -> int:
    """Run `python -m tasks dispatcher`."""
    from tasks.worker.process import run_dispatcher

    return run_dispatcher(settings)


def reconcile(settings: Settings, _: argparse.Namespace) -> int:
    """Run `python -m tasks reconcile`."""
    from tasks.worker.process import reconcile_once

    print(f"{reconcile_once(settings)} jobs moved")
    return 0


def drill(settings: Settings, given: argparse.Namespace) -> int:
    """Run `python -m tasks drills`."""
    from tasks.drills import run
    from tasks.drills.catalogue import DRILLS

    if given.list:
        print("\n".join(f"{drill.name}: {drill.done}" for drill in DRILLS))
        return 0
    return run.run(settings, given.names, staging=given.staging, at_once=max(1, given.at_once))


def preflight(settings: Settings, given: argparse.Namespace) -> int:
    """Run `python -m tasks preflight`."""
    from tasks.preflight import report

    lines, passed = report(settings, call_provider=given.call_provider)
    print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
