from __future__ import annotations

import uuid

import pytest

from tasks.__main__ import parser
from tasks.cli import jobs, ops, replays
from tasks.cli.jobs import NotFound
from tasks.database import Database
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.keys import reference_of
from tasks.ledger.models.control import Cause
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.maintenance.replayer import Replayer
from tasks.settings import Settings
from tests.support import factories


def fail(database: Database, account_id: uuid.UUID, content: bytes, category: Category) -> uuid.UUID:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id, content).job_id
        transitions.fail(session, factories.claim(session, job_id), category=category)
    return job_id


def replay(settings: Settings, *names: str, category: str | None = None) -> list[str]:
    return replays.replay(
        settings,
        names,
        category=category,
        code=None,
        cause=Cause.PROVIDER_RECOVERED,
        note="quota is back",
        per_minute=600,
    )


def test_a_dry_run_a_replay_and_a_second_one_say_what_they_do(
    settings: Settings, database: Database, account_id: uuid.UUID
) -> None:
    quota = [fail(database, account_id, f"text {n}".encode(), Category.QUOTA) for n in range(3)]
    other = fail(database, account_id, b"another text", Category.CONTENT_POLICY)
    lines = replays.dry_run(settings, [], category="quota", code=None)
    assert lines[0].startswith("quota: 3 jobs, the oldest from ")
    assert lines[1:] == ["  would be replayed: 3", "This was a dry run: nothing was changed."]
    assert replays.listed(settings) == []

    assert "  to be replayed: 3" in replay(settings, category="quota")

    def all_are_back() -> bool:
        Replayer(database.transaction, settings, lambda: None).step()
        with database.transaction() as session:
            return {factories.state_of(session, job) for job in quota} == {State.QUEUED}

    factories.wait_until(all_are_back)
    with database.transaction() as session:
        assert factories.state_of(session, other) is State.FAILED
        assert job_views.events_of(session, quota[0])[-1].facts["cause"] == "provider_recovered"
        assert job_views.orphans(session, grace_seconds=0) == 0
    again = replay(settings, *(reference_of(job) for job in quota))
    assert [line.partition("  ")[2] for line in again[2:5]] == ["left alone, already waiting for a worker"] * 3
    assert again[-1] == "Nothing is replayed."
    (line,) = replays.listed(settings)
    assert line.endswith("3 of 3 replayed, 0 succeeded, 0 failed again, 0 left alone; done")
    shown = "\n".join(jobs.shown(settings, str(quota[0])))
    assert "(command line), cause provider_recovered" in shown


def test_a_replay_is_stopped_by_the_beginning_of_its_id(
    settings: Settings, database: Database, account_id: uuid.UUID
) -> None:
    for n in range(2):
        fail(database, account_id, f"text {n}".encode(), Category.QUOTA)
    ops.pause(settings, note=None)
    assert replay(settings, category="quota")[-1] == "It waits until the work is resumed."
    name = replays.listed(settings)[0].split()[0]
    assert replays.stopped(settings, name, note="no")[0].endswith("0 left alone; stopped by an operator")
    for missing in ("nonsense", "", "%", "---"):
        with pytest.raises(NotFound):
            replays.stopped(settings, missing, note=None)


@pytest.mark.parametrize(
    "arguments",
    [
        "--category quota --cause other",  # without a note
        "--category quota --note x",  # without a cause
        "--category quota --cause whim --note x",
        "--cause other --note x",  # what?
        "--category quota WB-7K3F-92QD --cause other --note x",
        "--category quota --cause other --note x --per-minute 0",
    ],
)
def test_a_replay_without_a_reason_or_a_choice_is_refused(settings: Settings, arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        given = parser().parse_args(["jobs", "replay", *arguments.split()])
        given.run(settings, given)
    assert ended.value.code == 2


def test_the_work_is_paused_drained_and_resumed(settings: Settings, database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        claim = factories.claim(session, job_id)
    lines = ops.pause(settings, note="a deploy")
    assert lines[0].startswith("work: paused: nothing more is handed to the queue, since ") and "(a deploy)" in lines[0]
    assert lines[1] == "active: 1"
    lines: list[str] = []
    assert not ops.drain(settings, note=None, timeout=0, say=lines.append)
    assert lines[0] == "active: 1" and lines[1].startswith(f"still active: {reference_of(job_id)}, since ")
    assert "Claims stay stopped." in lines[2]

    def end_it(line: str) -> None:
        lines.append(line)
        if line == "active: 1":
            with database.transaction() as session:
                transitions.succeed(session, claim, text="done", facts={})

    lines.clear()
    assert ops.drain(settings, note=None, timeout=None, say=end_it)
    assert lines == ["active: 1", "active: 0", "Nothing is active. Claims stay stopped until `ops resume`."]
    assert ops.status(settings)[0].startswith("work: stopped: nothing more")
    lines = ops.resume(settings, note=None, at_once=2, keep_lane=False)
    assert lines[0].startswith("work: open, at most 2 at once, since ")
    assert lines[1] == f"lane {settings.lane}: was open, nothing to resume"
    assert ops.resume(settings, note=None, at_once=2, keep_lane=True)[0].endswith("nothing to resume")
    ops.resume(settings, note=None, at_once=None, keep_lane=True)
    with database.transaction() as session:
        assert gate.load(session, settings.queue_name).mode == "open"


def test_who_ran_out_of_time_in_a_pause_is_named_at_the_resume(
    settings: Settings, database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        gate.pause(session, settings.queue_name, by="ops")
        job_id = factories.submit(session, account_id).job_id
        transitions.fail_waiting(session, job_id, category=Category.DEADLINE, code="paused")
    lines = ops.resume(settings, note=None, at_once=None, keep_lane=True)
    assert lines[1].startswith("ran out of time while paused: 1. Put them back with `jobs replay --category deadline")
