"""Operator commands at a site with a real worker: replay, flush, drain, resume with a limit."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path

import pytest
from sqlalchemy import select, text

from tasks.__main__ import parser
from tasks.cli import ops, parsers, replays
from tasks.database import Database
from tasks.ledger.delivery import fair_order, gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.keys import reference_of
from tasks.ledger.models import Attempt
from tasks.ledger.models.control import Cause
from tasks.ledger.reports import job_views
from tasks.ledger.states import Event, State
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import factories
from tests.support.processes.processes import asking, process
from tests.support.site import Opened

pytestmark = pytest.mark.timeout(120)


def replay(settings: Settings, jobs: list[uuid.UUID], cause: Cause, note: str) -> list[str]:
    names = [reference_of(job) for job in jobs]
    return replays.replay(settings, names, category=None, code=None, cause=cause, note=note, per_minute=600)


@pytest.mark.thorough
def test_replaying_again_while_they_run_doubles_nothing(site: Opened, addresses: dict[str, str]) -> None:
    """Let ten jobs fail, replay them, replay them again while they run, and replay the five that fail again."""
    with site({"mode": "context"}, slots=12) as here:
        settings = factories.settings(addresses, ai_provider="openai", openai_api_key="test")
        jobs = [here.submit(f"Report {n}, {'marked' if n < 5 else 'plain'}.".encode()) for n in range(10)]
        for job in jobs:
            here.wait_for(job, State.FAILED)
        here.fake.script([{"mode": "gate", "text": "The summary."}])
        here.fake.script([{"mode": "refusal"}], marker="marked")
        asked = len(here.fake.requests)
        replay(settings, jobs, Cause.CREDENTIALS_RENEWED, "the key was renewed")
        here.fake.wait_for_requests(asked + 10)
        for job in jobs[:5]:
            here.wait_for(job, State.FAILED)
        again = replay(settings, jobs[5:], Cause.OTHER, "impatience")
        assert again[-1] == replays.ALL_LEFT_ALONE
        assert sum(line.endswith("left alone, already running") for line in again) == 5
        here.fake.release()
        for job in jobs[5:]:
            here.wait_for(job, State.SUCCEEDED)
        finished = replay(settings, jobs[5:], Cause.OTHER, "impatience")
        assert sum(line.endswith("left alone, already finished, its result is saved") for line in finished) == 5

        here.fake.script([{"mode": "ok"}], marker="marked")
        replay(settings, jobs[:5], Cause.MISTAKE, "the model was too careful")
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED)
        with here.database.transaction() as session:
            assert factories.count(session, "jobs") == factories.count(session, "results") == 10
            assert job_views.orphans(session, grace_seconds=0) == 0
            for n, job in enumerate(jobs):
                attempts = session.execute(select(Attempt).where(Attempt.job_id == job).order_by(Attempt.number))
                outcomes = {one.number: one.outcome for one in attempts.scalars() if one.outcome != "released"}
                causes = [event.facts for event in job_views.events_of(session, job) if event.event == Event.REPLAY]
                expected = ["credentials_renewed", "mistake"] if n < 5 else ["credentials_renewed"]
                assert [facts["cause"] for facts in causes] == expected
                assert all(facts["by"].endswith("(command line)") for facts in causes)
                assert outcomes == (
                    {1: "failed", 2: "failed", 3: "succeeded"} if n < 5 else {1: "failed", 2: "succeeded"}
                )


def test_what_is_flushed_and_emptied_is_rebuilt_from_the_rows(
    site: Opened, database: Database, queue: DeliveryQueue
) -> None:
    """Empty the queue by RQ's own command, then flush Redis, while jobs are queued, running and waiting to retry."""
    with site({"mode": "gate"}, slots=2) as here:
        running = [here.submit(f"Running {n}.".encode()) for n in range(2)]
        here.fake.wait_for_requests(2)
        jobs = [*running]
        with database.transaction() as session:
            gate.pause(session, factories.QUEUE, by="ops")  # only to set them up
            for n in range(2):
                job = factories.submit(session, here.account_id, f"Retrying {n}.".encode()).job_id
                transitions.retry_later(
                    session, factories.claim(session, job), category=Category.OVERLOADED, delay_seconds=3
                )
                jobs.append(job)
            gate.resume(session, factories.QUEUE, by="ops")
        jobs += [here.submit(f"Queued {n}.".encode()) for n in range(5)]
        factories.wait_until(lambda: queue.depth() >= fair_order.PREFETCH)
        queue.rq.empty()
        queue.connection.flushall()
        factories.wait_until(lambda: queue.depth() >= fair_order.PREFETCH, what="the rows to be delivered again")
        assert here.orphans() == 0
        here.fake.release()
        for job in jobs:
            here.wait_for(job, State.SUCCEEDED, within=60)
        assert (here.results(), len(here.fake.requests)) == (9, 9)


def test_nothing_that_is_offered_empties_a_queue(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["jobs"], ["ops"]):
        with pytest.raises(SystemExit):
            parser().parse_args([*command, "--help"])
    offered = capsys.readouterr().out.lower()
    assert "replay" in offered and "drain" in offered
    for word in ("purge", "empty the", "empty a", "flush", "clear", "delete"):
        assert word not in offered
    assert "purge" not in Path(parsers.__file__).read_text()


def test_a_drain_lets_what_is_active_finish_and_nothing_begin_and_a_limit_is_kept(
    site: Opened, addresses: dict[str, str]
) -> None:
    with site({"mode": "gate"}, slots=3) as here:
        jobs = [here.submit(f"Report {n}.".encode()) for n in range(5)]
        here.fake.wait_for_requests(3)
        with process(
            ["-m", "tasks", "ops", "drain"], factories.environment(addresses, **asking(here.fake))
        ) as draining:
            draining.wait_for_log("active: 3")
            assert "Nothing is active" not in draining.log
            here.fake.release()
            assert draining.wait() == 0
            assert "active: 0\nNothing is active." in draining.log
        late = here.submit(b"Handed in while drained.")
        assert len(here.fake.requests) == 3
        with here.database.transaction() as session:
            assert factories.count(session, "attempts") == factories.count(session, "results") == 3
            assert factories.count(session, "deliveries") == 3
            assert session.execute(text("SELECT max(number) FROM deliveries")).scalar_one() == 1, "none was burnt"
        settings = factories.settings(addresses, ai_provider="openai", openai_api_key="test")
        assert ops.status(settings)[0].startswith("work: stopped: ")
        lines = ops.resume(settings, note="carefully", at_once=1, keep_lane=False)
        assert "open, at most 1 at once" in lines[0] and "(carefully)" in lines[0]
        for job in [*jobs, late]:
            here.wait_for(job, State.SUCCEEDED, within=40)
        with here.database.transaction() as session:
            times = session.execute(
                text("SELECT started_at, ended_at FROM attempts ORDER BY started_at OFFSET 3")
            ).all()
            assert len(times) == 3
            assert all(ended <= begins for (_, ended), (begins, _) in itertools.pairwise(times))
