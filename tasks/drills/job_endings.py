"""Drills about work that ends early: the owner cancels, or the host stops all workers."""

from __future__ import annotations

import signal

from tasks.drills.environment import Stage
from tasks.ledger.jobs import transitions
from tasks.ledger.reports import job_views
from tasks.ledger.states import State


def cancelled_while_running(stage: Stage) -> None:
    """Cancel the job during the call. The call is cut off, nothing is saved, and nothing runs again."""
    stage.script({"mode": "gate"})
    job = stage.submit(ends=State.CANCELLED)
    stage.worker()
    stage.wait_for_requests(1)
    with stage.transaction() as session:
        transitions.cancel(session, job, stage.account_id)
    stage.struck()
    stage.wait_for()
    stage.recovered()
    stage.wait_until(lambda: stage.fake.requests[0].client_gone, "the call cut off")
    with stage.transaction() as session:
        result = job_views.result_of(session, job, stage.account_id)
    stage.check(result is None, "a cancelled job has a result")


def sigterm_to_all(stage: Stage) -> None:
    """Stop every worker during calls that take longer than the grace. A new worker continues."""
    stage.script({"mode": "gate"})
    jobs = [stage.submit() for _ in range(2)]
    stopped = [stage.worker(slots=1), stage.worker(slots=1)]
    stage.wait_for_requests(len(jobs))
    for worker in stopped:
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGTERM)  # some hosts send it twice
    stage.struck()
    for worker in stopped:
        stage.wait_for_end(worker, 0)
    states = {stage.view(job).state for job in jobs}
    stage.check(states == {State.QUEUED}, f"jobs were not handed back, but {sorted(states)}")
    stage.script({"mode": "ok"})
    stage.worker()
    stage.wait_for()
    stage.recovered()
    with stage.transaction() as session:
        numbers = {attempt.number for job in jobs for attempt in job_views.attempts_of(session, job)}
    stage.check(numbers == {1}, "the stop used up an attempt")
