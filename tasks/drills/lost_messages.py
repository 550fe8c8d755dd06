"""Drills about messages: duplicates, and a queue that lost all of them."""

from __future__ import annotations

from tasks.drills.environment import Stage
from tasks.ledger.delivery import fair_order


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
