"""Tests of alerts: of several workers one reports that a threshold is exceeded, and one that it no longer is."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.ledger.calls import lanes
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models.notifications import AlertKind
from tasks.maintenance.alert_monitor import AlertMonitor
from tasks.settings import Settings
from tests.support import factories

WATCHED = {
    "alert_email": "ops@example.org",
    "alert_webhook": "https://ops.example.org/hook",
    "alert_failures_per_hour": 2,
    "alert_queue_age_seconds": 60.0,
}


@pytest.fixture
def watch(database: Database, settings: Settings) -> AlertMonitor:
    return AlertMonitor(database.transaction, settings.model_copy(update=WATCHED))


def step(watch: AlertMonitor) -> list[tuple[str, str]]:
    return [(notification.what, str(notification.kind)) for notification in watch.step()]


def step_of_four_workers(watch: AlertMonitor) -> list[tuple[str, str]]:
    seen = factories.all_at_once([lambda: step(watch)] * 4)
    assert all(isinstance(found, list) for found in seen), seen
    return [notification for found in seen if isinstance(found, list) for notification in found]


def owed_notices(database: Database) -> list[str]:
    with database.transaction() as session:
        return list(session.execute(text("SELECT what || ' ' || channel FROM notices ORDER BY 1")).scalars())


def let_time_pass(database: Database, seconds: int) -> None:
    with database.transaction() as session:
        for column in ("began_at", "told_at", "calm_since"):
            session.execute(text(f"UPDATE alerts SET {column} = {column} - interval '{seconds} seconds'"))


def stop_the_lane(database: Database, settings: Settings) -> None:
    with database.transaction() as session:
        lanes.stop(session, settings.lane, category=Category.QUOTA, code="insufficient_quota")


def resume_the_lane(database: Database, settings: Settings) -> None:
    with database.transaction() as session:
        lanes.resume(session, settings.lane, by="ada", spread_seconds=0)


def test_many_workers_notify_once_that_it_began_and_once_that_it_is_over(
    database: Database, settings: Settings, watch: AlertMonitor
) -> None:
    assert step(watch) == []
    stop_the_lane(database, settings)
    assert step_of_four_workers(watch) == [("alert.began", "lane_stopped")]
    assert owed_notices(database) == ["alert.began email", "alert.began webhook"]
    assert step(watch) == []
    resume_the_lane(database, settings)
    assert step(watch) == [], "it has to be calm for a while"
    let_time_pass(database, 301)
    assert step_of_four_workers(watch) == [("alert.over", "lane_stopped")]
    assert owed_notices(database) == [
        "alert.began email",
        "alert.began webhook",
        "alert.over email",
        "alert.over webhook",
    ]
    stop_the_lane(database, settings)
    assert step(watch) == [("alert.began", "lane_stopped")], "the next time is a new alert"


def test_a_value_near_its_threshold_notifies_once(database: Database, settings: Settings, watch: AlertMonitor) -> None:
    stop_the_lane(database, settings)
    assert len(step(watch)) == 1
    for _ in range(3):
        resume_the_lane(database, settings)
        assert step(watch) == []
        let_time_pass(database, 200)
        stop_the_lane(database, settings)
        assert step(watch) == []


def test_an_alert_that_lasts_is_repeated_once_a_day(
    database: Database, settings: Settings, watch: AlertMonitor
) -> None:
    stop_the_lane(database, settings)
    step(watch)
    for _ in range(2):
        let_time_pass(database, 86_000)
        assert step(watch) == []
        let_time_pass(database, 500)
        assert step(watch) == [("alert.repeated", "lane_stopped")]
        assert step(watch) == []
    with database.transaction() as session:
        assert session.execute(text("SELECT count(DISTINCT key) FROM notices")).scalar_one() == 6


def test_every_limit_is_measured(
    database: Database, settings: Settings, account_id: uuid.UUID, watch: AlertMonitor
) -> None:
    def passed() -> set[str]:
        return {kind for _, kind in step(watch)}

    with database.transaction() as session:
        late = factories.submit(session, account_id, b"waits").job_id
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '30 seconds'"))
    assert passed() == set()
    with database.transaction() as session:
        session.execute(text("UPDATE deliveries SET not_before = now() - interval '62 seconds'"))
    assert passed() == {AlertKind.QUEUE_AGE}
    with database.transaction() as session:
        session.execute(text("DELETE FROM deliveries WHERE job_id = :id"), {"id": late})
    assert passed() == {AlertKind.ORPHANS}
    for category, alerts in (
        (Category.INVALID_DOCUMENT, set()),
        (Category.QUOTA, set()),
        (Category.QUOTA, set()),
        (Category.QUOTA, {AlertKind.FAILURES}),
    ):
        with database.transaction() as session:
            for _ in range(3 if category is Category.INVALID_DOCUMENT else 1):
                job = factories.submit(session, account_id, uuid.uuid4().hex.encode()).job_id
                transitions.fail(session, factories.claim(session, job), category=category)
        assert passed() == alerts


@pytest.mark.parametrize(("asked", "alerts"), [(599.0, []), (602.0, [("alert.began", "lane_cooling")])])
def test_a_long_wait_that_the_provider_asks_for_is_an_alert(
    database: Database, settings: Settings, watch: AlertMonitor, asked: float, alerts: list[tuple[str, str]]
) -> None:
    with database.transaction() as session:
        lanes.cool(session, settings.lane, seconds=asked, category=Category.RATE_LIMITED, code=None)
    assert step(watch) == alerts


def test_a_long_wait_is_an_alert_until_its_end(database: Database, settings: Settings, watch: AlertMonitor) -> None:
    with database.transaction() as session:
        lanes.cool(session, settings.lane, seconds=3600, category=Category.RATE_LIMITED, code=None)
    assert step(watch) == [("alert.began", "lane_cooling")]
    with database.transaction() as session:
        session.execute(
            text("UPDATE lanes SET until = until - interval '59 min', changed_at = changed_at - interval '59 min'")
        )
    assert step(watch) == []
    let_time_pass(database, 301)
    assert step(watch) == [], "the lane is still closed"
    resume_the_lane(database, settings)
    assert step(watch) == []
    let_time_pass(database, 301)
    assert step(watch) == [("alert.over", "lane_cooling")]


def test_without_a_receiver_the_alert_is_a_row_and_a_line_of_the_log(database: Database, settings: Settings) -> None:
    stop_the_lane(database, settings)
    assert step(AlertMonitor(database.transaction, settings)) == [("alert.began", "lane_stopped")]
    assert owed_notices(database) == []
