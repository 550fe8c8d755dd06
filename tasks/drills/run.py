"""python -m tasks drills: checks that no user is disturbed, plays the drills, cleans up, and prints the table."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import structlog

from tasks.database import Database
from tasks.drills import cleanup
from tasks.drills.catalogue import DRILLS, Drill
from tasks.drills.environment import Means, Stage
from tasks.drills.facts import DrillFailed, Interrupted, NotPlayed
from tasks.drills.report import NOT_PLAYED, PASSED, Row, lines_of
from tasks.drills.verdict import Findings, examine
from tasks.ledger.reports import job_views
from tasks.queue import DeliveryQueue
from tasks.queue.redis_client import QueueUnreachable, connect
from tasks.settings import Settings

log = structlog.get_logger()

DONE, FAILED, REFUSED = 0, 1, 2
AT_ONCE = 3
LAST_LINES = 25
IN_USE = (
    "Not run: {count} jobs of people are not finished. Drills share this host's database, Redis and processor with "
    "them. Wait until they are done, or give --staging where nobody is disturbed."
)


class Refusal(Exception):
    """Raised when the drills must not begin. The message says why."""


def run(settings: Settings, names: Sequence[str], *, staging: bool, at_once: int = AT_ONCE) -> int:
    """Play these drills, or all. Return 0 if all passed, 1 if a drill failed, and 2 if they were not begun."""
    unknown = set(names) - {drill.name for drill in DRILLS}
    if unknown:
        print(f"No such drill: {', '.join(sorted(unknown))}. --list names them.", file=sys.stderr)
        return REFUSED
    chosen = [drill for drill in DRILLS if not names or drill.name in names]
    try:
        with means_of(settings) as means, alone(means):
            look_around(means, staging=staging)
            rows = play_all(means, chosen, at_once)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    except QueueUnreachable as error:
        print(f"REDIS_URL: Redis does not answer ({type(error).__name__}).", file=sys.stderr)
        return FAILED
    print("\n".join(lines_of(rows)))
    return DONE if len(rows) == len(chosen) and not any(row.failed for row in rows) else FAILED


@contextmanager
def means_of(settings: Settings) -> Iterator[Means]:
    """Yield the services that the drills share, and let SIGINT and SIGTERM end the drills in order."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    database = Database(settings.model_copy(update={"database_pool_size": 4}), "waybill-drills")
    database.require()
    connection = connect(settings, connections=3)

    def queue_named(name: str) -> DeliveryQueue:
        return DeliveryQueue(settings.model_copy(update={"queue_name": name}), connection)

    try:
        connection.ping()
        yield Means(settings, database, queue_named, stopping)
    finally:
        connection.close()
        database.close()


@contextmanager
def alone(means: Means) -> Iterator[None]:
    """Keep other runs from starting during the block: they would remove the data of this run. Raises Refusal."""
    with means.database.engine.connect() as connection:
        if not cleanup.is_alone(connection):
            raise Refusal("Not run: another run of drills is under way on this database.")
        yield


def look_around(means: Means, *, staging: bool) -> None:
    """Refuse to run while users' jobs are unfinished, and remove the data of runs that were killed. Raises Refusal."""
    with means.database.transaction() as session:
        if job_views.schema_version(session) is None:
            raise Refusal("Not run: the database has no tables yet. Run: flask --app wsgi db upgrade")
        unfinished = cleanup.unfinished_of_people(session)
        leftovers = cleanup.left_behind(session)
    if unfinished and not staging:
        raise Refusal(IN_USE.format(count=unfinished))
    for names in leftovers:
        log.warning("drills.leftover_removed", queue=names.queue)
        cleanup.take_away(means.database, means.queue_named(names.queue), names)


def play_all(means: Means, drills: Sequence[Drill], at_once: int) -> list[Row]:
    """Play the drills, `at_once` at a time, and return their rows in order. Drills that did not begin have no row."""
    with ThreadPoolExecutor(at_once) as threads:
        futures = [threads.submit(play, means, drill) for drill in drills]
        while wait(futures, timeout=0.2).not_done:  # short waits, so that a signal is noticed in between
            if means.stopping.is_set():
                threads.shutdown(wait=True, cancel_futures=True)
    return [future.result() for future in futures if not future.cancelled()]


def play(means: Means, drill: Drill) -> Row:
    """Play one drill on its own stage, and return its row, which has a verdict whatever happens."""
    log.info("drill.begins", drill=drill.name)
    counts = ("-", "-", "-", "-")
    done, recovery, problems = drill.done, "-", []
    try:
        with Stage(means) as stage:
            try:
                drill.play(stage)
            except DrillFailed as failure:
                problems.append(str(failure))
            found = look_at(stage)
            counts = (str(found.lost), str(found.duplicates), str(found.calls), str(found.twice))
            problems += found.faults(twice_allowed=drill.twice_allowed)
            if stage.remark:
                done = f"{done}: {stage.remark}"
            if stage.recovery_seconds is not None:
                recovery = f"{stage.recovery_seconds:.1f} s"
            if problems:
                print_logs(drill, stage)
    except NotPlayed as lacking:
        return Row(drill.name, done, *counts, recovery, f"{NOT_PLAYED}: {lacking}")
    except Interrupted:
        problems = ["interrupted"]
    except Exception as error:
        log.error("drill.broken", drill=drill.name, error=type(error).__name__, exc_info=True)
        problems.append(f"could not be played or cleared up: {type(error).__name__}")
    verdict = f"failed: {'; '.join(problems)}" if problems else PASSED
    log.info("drill.ended", drill=drill.name, verdict=verdict)
    return Row(drill.name, done, *counts, recovery, verdict)


def look_at(stage: Stage) -> Findings:
    """Count the outcome of this stage's drill."""
    with stage.transaction() as session:
        return examine(
            session,
            queue=stage.names.queue,
            account_id=stage.account_id,
            expected=stage.expected,
            requests=stage.fake.requests,
        )


def print_logs(drill: Drill, stage: Stage) -> None:
    """Print the last log lines of the drill's processes, for the operator who looks into a failure."""
    for child in stage.children:
        print(
            f"--- {drill.name}, process {child.pid}:", *child.log.splitlines()[-LAST_LINES:], sep="\n", file=sys.stderr
        )
