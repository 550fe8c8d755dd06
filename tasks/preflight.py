"""`python -m tasks preflight`: whether this host can keep the promise, one line a question, with what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from tasks import budgets
from tasks.database import Database
from tasks.ledger import lanes, queries, responses
from tasks.queue import DeliveryQueue, QueueUnreachable, connect
from tasks.settings import Settings
from tasks.withdrawals import GIVE_UP_WITHDRAWING_SECONDS


@dataclass(frozen=True)
class Finding:
    """The answer to one question. `ok` False means that a job could be lost or could wait for ever."""

    ok: bool
    question: str
    measured: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = "ok  " if self.ok else "FAIL"
        return f"{mark}  {self.question}: {self.measured}" + ("" if self.ok else f". {self.remedy}")


def report(settings: Settings) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well."""
    findings = [*_database(settings), *_queue(settings)]
    lines = ["What fires first on one attempt, in seconds:", *_table(settings), ""]
    lines += [str(finding) for finding in findings]
    return lines, all(finding.ok for finding in findings)


def _table(settings: Settings) -> list[str]:
    rows = [
        (f"{number}.", budget.setting.split(",")[0], f"{budget.seconds:g}", budget.then)
        for number, budget in enumerate(budgets.nested(settings), 1)
    ]
    rows += [
        ("", "LEASE_SECONDS", f"{settings.lease_seconds:g}", "a silent worker's job is taken back, and runs elsewhere"),
        (
            "",
            "JOB_DEADLINE_SECONDS",
            f"{settings.job_deadline_seconds:g}",
            f"the whole job stops; it holds {settings.max_attempts} attempts",
        ),
        ("", "SHUTDOWN_GRACE_SECONDS", f"{settings.shutdown_grace_seconds:g}", "a stopped worker hands back its work"),
    ]
    return [f"  {mark:<3}{name:<27}{seconds:>6}  {then}" for mark, name, seconds, then in rows]


def _database(settings: Settings) -> list[Finding]:
    database = Database(settings, "waybill-preflight")
    try:
        with database.transaction() as session:
            version = queries.schema_version(session)
            if version is None:
                return [
                    Finding(False, "database", "answers, has no tables", "Run: flask --app wsgi db upgrade"),
                ]
            orphans = queries.orphans(session, grace_seconds=settings.lease_seconds + settings.sweep_seconds)
            workers = queries.live_workers(
                session, queue=settings.queue_name, seen_within_seconds=settings.lease_seconds * 2
            )
            closed = lanes.door(session, settings.lane)
            standing = responses.standing(
                session, lane=settings.lane, overdue_seconds=GIVE_UP_WITHDRAWING_SECONDS + settings.sweep_seconds
            )
    except SQLAlchemyError as error:
        return [Finding(False, "database", f"no answer ({type(error).__name__})", "Check DATABASE_URL")]
    finally:
        database.close()
    lane = "open" if closed is None else str(closed.state)
    return [
        Finding(True, "database", f"answers, schema {version}"),
        Finding(orphans == 0, "orphans", str(orphans), "Start a worker; if the number stays, report it"),
        Finding(workers > 0, "live workers", str(workers), "Start one: python -m tasks worker"),
        Finding(lane != "stopped", f"lane {settings.lane}", lane, "When the cause is gone: python -m tasks ops resume"),
        *([_at_the_provider(settings, *standing)] if settings.openai_background or standing[0] else []),
    ]


def _at_the_provider(settings: Settings, open_now: int, overdue: int) -> Finding:
    measured = f"{open_now} of {settings.provider_concurrency} places taken"
    return Finding(
        overdue == 0,
        "background mode",
        measured + (f", {overdue} by jobs that are over" if overdue else ""),
        "They keep others waiting. Start a worker, which withdraws them",
    )


def _queue(settings: Settings) -> list[Finding]:
    connection = connect(settings, connections=1, answer_within_seconds=2)
    try:
        version, policy = DeliveryQueue(settings, connection).server()
    except QueueUnreachable as error:
        return [Finding(False, "queue", f"no answer ({type(error).__name__})", "Check REDIS_URL")]
    finally:
        connection.close()
    number = tuple(int(part) for part in version.split(".")[:2])
    return [
        Finding(number >= (6, 2), "queue", f"answers, version {version}", "Redis 6.2 or newer is needed"),
        Finding(
            policy in ("noeviction", "unknown"),
            "queue eviction policy",
            policy,
            "Set maxmemory-policy noeviction, or waiting messages are dropped and sent again late",
        ),
    ]
