"""Tests of replays: jobs are put back once, at the rate, until the same failure comes back, and events say by whom."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.history import audit_log
from tasks.ledger.jobs import transitions
from tasks.ledger.jobs.deletion import delete_document
from tasks.ledger.models.control import Cause, ReplayState
from tasks.ledger.replays import progress as replays_progress
from tasks.ledger.replays import replays, selection
from tasks.ledger.replays.progress import Progress
from tasks.ledger.replays.selection import Choice, Group
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.ledger.terms import ReplayTerms
from tasks.maintenance.replayer import Replayer
from tasks.settings import Settings
from tests.support import factories

TERMS = ReplayTerms(deadline_seconds=600, more_attempts=3, lane="local")


class Desk:
    """The actions of an operator on failed jobs, for the tests."""

    def __init__(self, database: Database, account_id: uuid.UUID) -> None:
        self.database = database
        self.account_id = account_id
        self.made = 0

    def failed(self, category: Category = Category.AUTH, code: str | None = None) -> uuid.UUID:
        self.made += 1
        with self.database.transaction() as session:
            job_id = factories.submit(session, self.account_id, b"text %d" % self.made).job_id
            transitions.fail(session, factories.claim(session, job_id), category=category, code=code)
        return job_id

    def begin(self, choice: Choice, *, per_minute: int = 60) -> uuid.UUID:
        with self.database.transaction() as session:
            return replays.begin(
                session,
                factories.QUEUE,
                choice,
                cause=Cause.CREDENTIALS_RENEWED,
                note="the key was renewed",
                by="ada@example.org",
                per_minute=per_minute,
                terms=TERMS,
            )

    def carry_on(self) -> uuid.UUID | None:
        with self.database.transaction() as session:
            return replays.carry_on(session, factories.QUEUE, TERMS)

    def let_the_turn_come(self) -> None:
        with self.database.transaction() as session:
            session.execute(text("UPDATE replays SET next_at = now() WHERE state = 'running'"))

    def progress(self, replay_id: uuid.UUID) -> Progress:
        with self.database.transaction() as session:
            found = replays_progress.one(session, factories.QUEUE, replay_id)
        assert found is not None
        return found

    def would(self, choice: Choice) -> list[Group]:
        with self.database.transaction() as session:
            return selection.grouped(selection.evaluate(session, factories.QUEUE, choice))

    def state(self, job_id: uuid.UUID) -> State:
        with self.database.transaction() as session:
            return factories.state_of(session, job_id)

    def end(self, job_id: uuid.UUID, category: Category | None = None) -> None:
        with self.database.transaction() as session:
            claim = factories.claim(session, job_id)
            if category is None:
                transitions.succeed(session, claim, text="done", facts={})
            else:
                transitions.fail(session, claim, category=category)


@pytest.fixture
def desk(database: Database, account_id: uuid.UUID) -> Desk:
    return Desk(database, account_id)


def counts(progress: Progress) -> tuple[int, int, int]:
    return progress.replayed, progress.waiting, progress.left_alone


def test_one_job_goes_back_at_once_with_its_identity_and_the_history_says_who_and_why(desk: Desk) -> None:
    job_id = desk.failed()
    with desk.database.transaction() as session:
        key = session.execute(text("SELECT operation_key FROM jobs")).scalar_one()
    replay_id = desk.begin(Choice([job_id]))
    assert desk.state(job_id) is State.QUEUED
    progress = desk.progress(replay_id)
    assert (progress.replay.state, progress.replay.ended_because) == (ReplayState.FINISHED, "done")
    with desk.database.transaction() as session:
        event = job_views.events_of(session, job_id)[-1]
        assert event.facts == {"cause": "credentials_renewed", "by": "ada@example.org", "replay": replay_id.hex}
        assert session.execute(text("SELECT operation_key FROM jobs")).scalar_one() == key
        (decided,) = audit_log.newest(session, factories.QUEUE, limit=9)
        assert (decided.what, decided.by, decided.note) == ("replay", "ada@example.org", "the key was renewed")
        assert decided.facts["jobs"] == 1 and decided.facts["replay"] == replay_id.hex
        claim = factories.claim(session, job_id)
        assert (claim.attempt, claim.max_attempts) == (2, 4), "attempt numbers go on"
        assert job_views.orphans(session, grace_seconds=0) == 0


def test_many_go_back_one_by_one_at_the_rate_and_not_faster(desk: Desk) -> None:
    jobs = [desk.failed() for _ in range(3)]
    other = desk.failed(Category.QUOTA)
    replay_id = desk.begin(Choice(category="auth"), per_minute=1)
    assert [desk.state(job) for job in jobs] == [State.QUEUED, State.FAILED, State.FAILED], "the oldest first"
    assert desk.carry_on() is None
    with desk.database.transaction() as session:
        wait = replays.seconds_until_next(session, factories.QUEUE)
    assert wait is not None and 20 < wait <= 60  # a slow machine may take a while until here
    for expected in ((2, 1, 0), (3, 0, 0)):
        desk.let_the_turn_come()
        assert desk.carry_on() == replay_id
        assert counts(desk.progress(replay_id)) == expected
        assert desk.carry_on() is None
    assert desk.progress(replay_id).replay.state == ReplayState.FINISHED
    assert desk.state(other) is State.FAILED


@pytest.mark.race
def test_any_number_of_workers_keep_one_rate(desk: Desk, settings: Settings) -> None:
    for _ in range(6):
        desk.failed()
    replay_id = desk.begin(Choice(category="auth"), per_minute=1)
    for expected in (2, 3):
        desk.let_the_turn_come()
        works = [Replayer(desk.database.transaction, settings, lambda: None).step for _ in range(4)]
        assert sum(taken for taken in factories.all_at_once(works) if isinstance(taken, int)) == 1
        assert desk.progress(replay_id).replayed == expected


def test_a_crash_in_the_middle_of_a_turn_changes_nothing(desk: Desk) -> None:
    jobs = [desk.failed() for _ in range(2)]
    replay_id = desk.begin(Choice(category="auth"))
    desk.let_the_turn_come()
    with pytest.raises(KeyboardInterrupt), desk.database.transaction() as session:
        assert replays.carry_on(session, factories.QUEUE, TERMS) == replay_id
        raise KeyboardInterrupt
    assert desk.state(jobs[1]) is State.FAILED and counts(desk.progress(replay_id)) == (1, 1, 0)
    assert desk.carry_on() == replay_id
    assert desk.state(jobs[1]) is State.QUEUED and counts(desk.progress(replay_id)) == (2, 0, 0)
    with desk.database.transaction() as session:
        events = [event.event for event in job_views.events_of(session, jobs[1])]
    assert events.count("replay") == 1


def test_control_without_the_time_of_the_next_turn_all_go_back_at_once(desk: Desk) -> None:
    for _ in range(4):
        desk.failed()
    replay_id = desk.begin(Choice(category="auth"), per_minute=1)
    while desk.carry_on() is not None or desk.progress(replay_id).waiting:
        desk.let_the_turn_come()
    assert desk.progress(replay_id).replayed == 4


def test_the_same_failure_stops_the_rest(desk: Desk) -> None:
    first, second, third = (desk.failed() for _ in range(3))
    replay_id = desk.begin(Choice(category="auth"))
    desk.end(first, Category.OVERLOADED)  # another failure does not stop it
    desk.let_the_turn_come()
    desk.carry_on()
    desk.end(second, Category.AUTH)
    desk.let_the_turn_come()
    assert desk.carry_on() == replay_id
    progress = desk.progress(replay_id)
    assert (progress.replay.state, progress.replay.ended_because) == (ReplayState.STOPPED, "same_failure")
    assert counts(progress) == (2, 1, 0) and progress.failed_again == 2
    assert desk.state(third) is State.FAILED
    assert desk.carry_on() is None
    assert [(group.replayed, group.left_alone) for group in desk.would(Choice([third]))] == [(1, {})], "not kept for it"


def test_an_operator_stops_it_once(desk: Desk) -> None:
    for _ in range(2):
        desk.failed()
    replay_id = desk.begin(Choice(category="auth"))
    with desk.database.transaction() as session:
        assert not replays.stop(session, "another", replay_id, by="bob")
        assert replays.stop(session, factories.QUEUE, replay_id, by="bob", note="wrong one")
        assert not replays.stop(session, factories.QUEUE, replay_id, by="bob")
        stopped = [one for one in audit_log.newest(session, factories.QUEUE, limit=9) if one.what == "stop_replay"]
        assert [(one.by, one.note) for one in stopped] == [("bob", "wrong one")]
    desk.let_the_turn_come()
    assert desk.carry_on() is None
    assert desk.progress(replay_id).replay.ended_by == "bob"


@pytest.mark.parametrize("way", ["paused", "lane_stopped"])
def test_it_waits_while_its_jobs_would_only_wait(desk: Desk, way: str) -> None:
    job_id = desk.failed()
    with desk.database.transaction() as session:
        if way == "paused":
            gate.pause(session, factories.QUEUE, by="ops")
        else:
            lanes.stop(session, "local", category=Category.AUTH, code=None)
    desk.begin(Choice([job_id]))
    assert desk.carry_on() is None
    with desk.database.transaction() as session:
        assert replays.wait_reason(session, factories.QUEUE, "local") == way
        if way == "paused":
            gate.resume(session, factories.QUEUE, by="ops")
        else:
            lanes.resume(session, "local", by="ops", spread_seconds=0)
    assert desk.state(job_id) is State.FAILED
    assert desk.carry_on() is not None
    assert desk.state(job_id) is State.QUEUED


def test_a_dry_run_says_what_would_be_done_and_what_would_be_left_alone_and_why(desk: Desk) -> None:
    older = desk.failed()
    words = ("back", "deleted", "emptied", "waiting", "running", "finished", "elsewhere", "read")
    jobs = {word: desk.failed() for word in words}
    quota = desk.failed(Category.QUOTA, "insufficient_quota")
    for word in ("waiting", "running", "finished"):
        desk.begin(Choice([jobs[word]]))
    with desk.database.transaction() as session:
        factories.claim(session, jobs["running"])
        gone = {"ids": [jobs["deleted"], jobs["emptied"], jobs["read"]]}
        session.execute(
            text("UPDATE documents SET content = NULL WHERE id IN (SELECT document_id FROM jobs WHERE id = ANY(:ids))"),
            gone,
        )
        session.execute(
            text(
                "INSERT INTO checkpoints (job_id, step, generation, text, facts) "
                "VALUES (:read, 'read', 1, 'its text is still there', '{}'), (:emptied, 'read', 1, '', '{}')"
            ),
            {"read": jobs["read"], "emptied": jobs["emptied"]},
        )
    desk.end(jobs["finished"])
    desk.begin(Choice([older, jobs["elsewhere"]]))  # the second job waits for its turn there

    groups = desk.would(Choice([*jobs.values(), quota]))
    assert {group.category: (group.replayed, group.left_alone) for group in groups} == {
        "auth": (2, {"document_deleted": 2, "in_another_replay": 1}),
        "quota": (1, {}),
        None: (0, {"waiting": 1, "running": 1, "finished": 1}),
    }
    assert desk.state(jobs["back"]) is State.FAILED, "nothing was changed"
    assert desk.would(Choice(category="quota", code="another")) == []
    assert [group.jobs for group in desk.would(Choice(category="quota", code="insufficient_quota"))] == [1]


def test_a_job_that_moved_before_its_turn_is_left_alone_and_one_that_is_gone_is_no_trouble(
    desk: Desk, database: Database, account_id: uuid.UUID
) -> None:
    first, moved, gone, last = (desk.failed() for _ in range(4))
    replay_id = desk.begin(Choice(category="auth"))
    with database.transaction() as session:
        transitions.replay(session, moved, deadline_seconds=60, more_attempts=1, cause="the owner")
        document: Any = session.execute(text("SELECT document_id FROM jobs WHERE id = :id"), {"id": gone}).scalar_one()
        delete_document(session, document, account_id)
    desk.let_the_turn_come()
    desk.carry_on()
    assert counts(desk.progress(replay_id)) == (1, 1, 1)
    desk.carry_on()  # a job that was left alone does not count for the rate
    assert counts(desk.progress(replay_id)) == (2, 0, 1)
    assert desk.state(first) is desk.state(last) is State.QUEUED
    with database.transaction() as session:
        assert {item.why for item in replays_progress.items_of(session, replay_id, limit=9)} == {None, "waiting"}
