"""Drills about a provider that refuses requests, and a provider that does not answer."""

from __future__ import annotations

import uuid

from tasks.drills.environment import Stage
from tasks.drills.facts import DrillFailed
from tasks.ledger.calls import lanes
from tasks.ledger.jobs import transitions
from tasks.ledger.models import ProviderCall
from tasks.ledger.reports import job_views
from tasks.ledger.states import CallOutcome, State

DELAY_SECONDS = 2.0
CALL_SECONDS = 2.0
A_DAY_SECONDS = 24 * 3600.0
SHORT = {"PROVIDER_CALL_SECONDS": f"{CALL_SECONDS:g}", "ATTEMPT_SECONDS": "6", "RESERVATION_SECONDS": "12"}


def rate_limit(stage: Stage) -> None:
    """Let the provider ask to wait. It gets no request before, not even from the second job."""
    stage.script({"mode": "rate", "retry_after": DELAY_SECONDS}, {"mode": "ok"})
    stage.submit()
    stage.worker(slots=1)
    refused_at = stage.wait_for_requests(1)[0].at
    stage.struck()
    stage.submit()
    stage.wait_for()
    stage.recovered()
    waited = stage.fake.requests[1].at - refused_at
    stage.check(waited >= DELAY_SECONDS, f"asked again after {waited:.1f} s, not {DELAY_SECONDS:g} s")
    stage.check(len(stage.fake.requests) == 3, "a request was sent while the lane was closed")


def invalid_credentials(stage: Stage) -> None:
    """Let the provider refuse the key. See `_stopped_until_resumed`."""
    _stopped_until_resumed(stage, "auth")


def quota_used_up(stage: Stage) -> None:
    """Let the provider say that the quota is used up. See `_stopped_until_resumed`."""
    _stopped_until_resumed(stage, "quota")


def _stopped_until_resumed(stage: Stage, cause: str) -> None:
    """Let one request be refused. All jobs wait, also the one that met it; an operator resumes, and all succeed."""
    stage.script({"mode": cause})
    jobs = [stage.submit() for _ in range(3)]
    stage.worker(slots=1)
    stage.wait_until(lambda: all(_waits_for_lane(stage, job) for job in jobs), f"all waiting because of {cause}")
    stage.check(len(stage.fake.requests) == 1, "more than one request was sent to the stopped lane")
    stage.script({"mode": "ok"})
    _resume(stage)
    stage.check(all(stage.view(job).attempt == 1 for job in jobs), "an attempt was used up by waiting")


def _resume(stage: Stage) -> None:
    stage.struck()
    with stage.transaction() as session:
        lanes.resume(session, stage.lane, by="drill", spread_seconds=transitions.LANE_SPREAD_SECONDS)
    stage.wait_for()
    stage.recovered()


def odd_retry_after(stage: Stage) -> None:
    """Let the provider ask to wait for thirty years. The lane is closed for a day at most, and an operator opens it."""
    stage.script({"mode": "rate", "retry_after": 10**9}, {"mode": "ok"})
    stage.submit(ends=State.FAILED)  # its own wait does not fit before its deadline
    stage.worker(slots=1)
    stage.wait_for()
    with stage.transaction() as session:
        closed = lanes.check(session, stage.lane)
    stage.check(closed is not None and (closed.seconds or 0) <= A_DAY_SECONDS, "the lane is closed for too long")
    behind = stage.submit()
    stage.wait_until(lambda: _waits_for_lane(stage, behind), "the next job behind the lane")
    _resume(stage)


def _waits_for_lane(stage: Stage, job_id: uuid.UUID) -> bool:
    with stage.transaction() as session:
        return job_views.lane_wait_of(session, job_id) is not None


def provider_stalls(stage: Stage) -> None:
    """Let the provider accept the request and never answer. See `_given_up_at_the_calls_budget`."""
    _given_up_at_the_calls_budget(stage, "hang")


def provider_trickles(stage: Stage) -> None:
    """Let the provider send a byte now and then, so that no timeout between two bytes fires."""
    _given_up_at_the_calls_budget(stage, "drip")


def _given_up_at_the_calls_budget(stage: Stage, mode: str) -> None:
    stage.script({"mode": mode}, {"mode": "ok"})
    job = stage.submit()
    stage.worker(budgets=SHORT)
    stage.wait_for_requests(1)
    stage.struck()
    stage.wait_for()
    stage.recovered()
    with stage.transaction() as session:
        first, second = job_views.calls_of(session, job)
    stage.check(first.outcome == CallOutcome.UNKNOWN, f"the lost call is recorded as {first.outcome}")
    stage.check(second.outcome == CallOutcome.SUCCEEDED, f"the second call is recorded as {second.outcome}")
    took = _seconds_of(first)
    stage.remark = f"ended after {took:.1f} s by {first.error_code}"
    stage.check(first.error_code == "call_budget", f"{first.error_code} ended the call, not its own budget")
    stage.check(CALL_SECONDS - 0.1 <= took < 5, f"the call ended after {took:.1f} s, not {CALL_SECONDS:g} s")


def _seconds_of(call: ProviderCall) -> float:
    if call.ended_at is None:
        raise DrillFailed("a call was never closed")
    return (call.ended_at - call.started_at).total_seconds()
