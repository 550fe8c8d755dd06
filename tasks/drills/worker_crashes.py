"""Drills about processes that die or freeze at the worst moment."""

from __future__ import annotations

import signal

from tasks.drills.environment import Stage
from tasks.drills.processes import Child
from tasks.ledger.reports import job_views
from tasks.ledger.states import State

IN_BACKGROUND = {"OPENAI_BACKGROUND": "1"}


def killed_after_commit(stage: Stage) -> None:
    """Kill a worker after the result's commit, before RQ knows. Nothing may run again, and the next job must run."""
    stage.submit()
    victim = stage.worker(die_at="worker.succeeded")
    stage.wait_for_end(victim)
    stage.struck()
    stage.submit()
    stage.worker()
    stage.wait_for()
    stage.recovered()


def _killed_and_taken_up(stage: Stage, victim: Child) -> None:
    """Wait until the victim dies at its fault point, and let another worker finish everything."""
    stage.wait_for_end(victim)
    stage.struck()
    stage.worker()
    stage.wait_for()
    stage.recovered()


def killed_before_commit(stage: Stage) -> None:
    """Kill a worker before the result's commit. The answer is already saved, so the provider is not called again."""
    job = stage.submit()
    _killed_and_taken_up(stage, stage.worker(die_at="worker.before_commit"))
    with stage.transaction() as session:
        outcomes = [attempt.outcome for attempt in job_views.attempts_of(session, job)]
    stage.check(outcomes == ["lost", "succeeded"], f"attempts ended as {outcomes}")


def killed_with_the_answer(stage: Stage) -> None:
    """Kill a worker that has the answer but has not saved it.

    This gap cannot be closed: the provider is called again once, and the lost call is counted.
    """
    job = stage.submit()
    _killed_and_taken_up(stage, stage.worker(die_at="worker.answered"))
    stage.check(stage.view(job).unknown_calls == 1, "the lost answer is not recorded as unknown")


def killed_while_it_is_made(stage: Stage) -> None:
    """Kill a worker in background mode after it saved the response id. The next attempt polls that response."""
    job = stage.submit()
    stage.script({"mode": "gate"})
    victim = stage.worker(die_at="worker.response_saved", budgets=IN_BACKGROUND)
    stage.wait_for_end(victim)
    stage.struck()
    stage.worker(budgets=IN_BACKGROUND)
    stage.wait_until(lambda: stage.fake.generations[0].looks > 0, "the provider asked about its response")
    stage.fake.release()
    stage.wait_for()
    stage.recovered()
    made = len(stage.fake.generations)
    stage.check(made == 1, f"{made} responses were made, not 1")
    stage.check(stage.view(job).unknown_calls == 0, "a response with a name is recorded as unknown")


def dispatcher_killed(stage: Stage) -> None:
    """Kill a dispatcher after it took a delivery from the outbox, which never reaches the queue."""
    stage.submit()
    _killed_and_taken_up(stage, stage.dispatcher(die_at="dispatcher.taken"))


def stale_worker(stage: Stage) -> None:
    """Freeze a worker during a call, until it has lost its claim, and wake it up with an answer that is stale."""
    job = stage.submit()
    stage.script({"mode": "gate", "text": "The stale answer."}, {"mode": "ok", "text": "The good answer."})
    frozen = stage.worker()
    stage.wait_for_requests(1)
    frozen.signal(signal.SIGSTOP)
    stage.struck()
    stage.worker()
    stage.wait_for(job)
    stage.recovered()
    stage.fake.release()
    frozen.signal(signal.SIGCONT)
    stage.wait_for_log(frozen, "attempt.claim_lost")
    with stage.transaction() as session:
        result = job_views.result_of(session, job, stage.account_id)
    stage.check(result is not None and result.text == "The good answer.", "the stale worker's answer was saved")


def poison_beside_good_ones(stage: Stage) -> None:
    """Hand in a document that kills each worker that reads it. Each good one loses one call, and it is condemned."""
    stage.script({"mode": "gate"})
    good = [stage.submit() for _ in range(3)]
    first = stage.worker(slots=4, poisoned=True)
    stage.wait_for_requests(3)
    stage.submit(ends=State.FAILED, poison=True)
    stage.struck()
    stage.wait_for_end(first)
    second = stage.worker(slots=4, poisoned=True)
    stage.wait_for_requests(6)
    stage.fake.release()
    stage.wait_for(*good)
    stage.wait_for_end(second)
    stage.wait_for_end(stage.worker(slots=4, poisoned=True))
    stage.worker(slots=4, poisoned=True)
    stage.wait_for()
    stage.recovered()


def database_read_only(stage: Stage) -> None:
    """Give a worker a database that takes no writes. It takes no job, and another worker does the work."""
    stage.submit()
    reader = stage.worker(budgets={"PGOPTIONS": "-c default_transaction_read_only=on"})
    stage.struck()
    stage.wait_for_log(reader, "ReadOnlySqlTransaction")
    stage.worker()
    stage.wait_for()
    stage.recovered()
    stage.check(reader.exit_code is None, "the worker ended instead of waiting for the database")
