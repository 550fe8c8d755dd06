"""Drills about messages: duplicates, a queue that lost all of them, and a queue that takes none."""

from __future__ import annotations

from tasks.drills.environment import Stage
from tasks.drills.own_redis import limit_memory, own_redis
from tasks.ledger.delivery import fair_order
from tasks.ledger.models.notifications import AlertKind
from tasks.ledger.notifications import alerts
from tasks.ledger.notifications.alerts import AlertThresholds
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.preflight import queue as preflight

FULL = "Redis is full"
OVERDUE_SECONDS = 1.0


def same_message_twice(stage: Stage) -> None:
    """Deliver copies of a job's message during its attempt and after its end. The claim refuses each copy."""
    stage.script({"mode": "gate"})
    job = stage.submit()
    worker = stage.worker(slots=3)
    stage.wait_for_requests(1)
    for number in (901, 902):
        stage.queue.send(job, number, wait_seconds=0)
    stage.wait_until(lambda: worker.log.count('"reason": "held"') == 2, "both copies refused")
    stage.fake.release()
    stage.wait_for()
    stage.queue.send(job, 903, wait_seconds=0)
    stage.wait_for_log(worker, '"reason": "finished"')


def redis_forgot(stage: Stage) -> None:
    """Delete every key of the queue while a job runs and others wait. All of them are delivered again."""
    stage.script({"mode": "gate"})
    jobs = [stage.submit() for _ in range(6)]
    stage.worker(slots=1)
    stage.wait_for_requests(1)
    stage.wait_until(lambda: stage.queue.depth() == fair_order.PREFETCH, "as many others in the queue as it is to have")
    stage.queue.delete_all_keys(jobs)
    stage.struck()
    stage.fake.release()
    stage.wait_for()
    stage.recovered()


def redis_full(stage: Stage) -> None:
    """Let Redis refuse every message because it is full. Jobs are accepted and stay owed, and all end once it has room.

    The log, `preflight` and readiness say what Redis answered, and the alert "queue_age" counts the wait.
    """
    with own_redis(stage.means.settings) as settings:
        worker = stage.worker(slots=4, budgets={"REDIS_URL": settings.redis_url.get_secret_value()})
        limit_memory(settings, 1)
        stage.struck()
        jobs = [stage.submit() for _ in range(4)]
        stage.wait_for_log(worker, FULL)
        stage.check(any(FULL in found.measured for found in preflight.findings(settings)), "preflight does not say why")
        stage.wait_until(lambda: _is_overdue(stage), "the alert about work that waits")
        states = {stage.view(job).state for job in jobs}
        stage.check(states == {State.QUEUED}, f"jobs do not wait, but are {sorted(states)}")
        with stage.transaction() as session:
            stage.check(
                job_views.orphans(session, grace_seconds=0, queue=stage.names.queue) == 0, "a job is owed nothing"
            )
        limit_memory(settings, 0)
        stage.wait_for()
        stage.recovered()


def _is_overdue(stage: Stage) -> bool:
    limits = AlertThresholds(OVERDUE_SECONDS, failures=0, renewal=stage.means.settings.renewal)
    with stage.transaction() as session:
        found = alerts.measured(session, queue=stage.names.queue, lane=stage.lane, limits=limits)
    return found[AlertKind.QUEUE_AGE] is not None
