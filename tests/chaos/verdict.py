"""Checks what must hold after the trouble is over, and counts the rest."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from tasks.fake_provider.http_server import Seen
from tasks.ledger.reports import job_views

PROMISES = {
    "jobs without an end": "SELECT count(*) FROM jobs WHERE finished_at IS NULL",
    "deliveries still owed": "SELECT count(*) FROM deliveries",
    "succeeded without a result": (
        "SELECT count(*) FROM jobs WHERE state = 'succeeded' AND id NOT IN (SELECT job_id FROM results)"
    ),
    "results of jobs that did not succeed": (
        "SELECT count(*) FROM results JOIN jobs ON jobs.id = job_id WHERE state <> 'succeeded'"
    ),
    "documents with more than one result": (
        "SELECT count(*) FROM (SELECT document_id FROM jobs JOIN results ON job_id = jobs.id"
        " GROUP BY document_id HAVING count(*) > 1) AS doubled"
    ),
    "results of another claim than the one that succeeded": (
        "SELECT count(*) FROM results LEFT JOIN attempts USING (job_id, generation)"
        " WHERE outcome IS DISTINCT FROM 'succeeded'"
    ),
    "attempts without an end": "SELECT count(*) FROM attempts WHERE ended_at IS NULL",
    "jobs with more attempts than allowed": "SELECT count(*) FROM jobs WHERE attempts > max_attempts",
    "provider calls without an end": "SELECT count(*) FROM provider_calls WHERE outcome = 'open'",
    "claims with more than one call": (
        "SELECT count(*) FROM (SELECT job_id FROM provider_calls"
        " GROUP BY job_id, generation HAVING count(*) > 1) AS more"
    ),
    "steps whose call was lost more than twice": (
        "SELECT count(*) FROM (SELECT job_id FROM provider_calls WHERE outcome = 'unknown'"
        " GROUP BY job_id, step HAVING count(*) > 2) AS more"
    ),
    "attempts longer than their bounds": (
        "SELECT count(*) FROM attempts WHERE ended_at - started_at > make_interval(secs => :bound)"
    ),
    "jobs ended too long after their deadline": (
        "SELECT count(*) FROM jobs WHERE finished_at > deadline_at + make_interval(secs => :bound)"
    ),
}

UNANSWERED = (
    "SELECT attempts.outcome FROM provider_calls JOIN attempts USING (job_id, generation)"
    " WHERE provider_calls.outcome = 'unknown'"
)


@dataclass(frozen=True)
class Numbers:
    """The figures of a run. `recoveries` are seconds from a kill or freeze to the next attempt at the same job."""

    states: dict[str, int]
    causes: dict[str, int]
    requests: int
    asked_again: int
    unanswered: dict[str, int]
    recoveries: list[float]
    longest_attempt: float


def violations(
    session: Session, *, accepted: Collection[uuid.UUID], requests: Sequence[Seen], bound: float
) -> list[str]:
    """Return every broken promise with its count.

    `bound` is how many seconds an attempt may be open, outages included.
    """
    counts = {
        what: session.execute(text(query), {"bound": bound} if ":bound" in query else {}).scalar_one()
        for what, query in PROMISES.items()
    }
    known = {str(call_id) for (call_id,) in session.execute(text("SELECT id FROM provider_calls"))}
    jobs = {job_id for (job_id,) in session.execute(text("SELECT id FROM jobs"))}
    counts["orphans"] = job_views.orphans(session, grace_seconds=0)
    counts["accepted jobs without a row"] = len(set(accepted) - jobs)
    counts["jobs nobody submitted"] = len(jobs - set(accepted))
    counts["provider requests without a row"] = sum(seen.client_request_id not in known for seen in requests)
    return [f"{count} {what}" for what, count in counts.items() if count]


def numbers(session: Session, *, requests: Sequence[Seen], killed_at: dict[int, float]) -> Numbers:
    """Count everything that is not a violation."""
    states = Counter(state for (state,) in session.execute(text("SELECT state FROM jobs")))
    causes = Counter(
        f"{category}/{code}"
        for category, code in session.execute(
            text("SELECT error_category, error_code FROM jobs WHERE state = 'failed'")
        )
    )
    billed = {
        str(call_id): job_id
        for call_id, job_id in session.execute(text("SELECT id, job_id FROM provider_calls WHERE outcome <> 'failed'"))
    }
    asked = Counter(billed[str(seen.client_request_id)] for seen in requests if seen.client_request_id in billed)
    longest = session.execute(text("SELECT max(extract(epoch FROM ended_at - started_at)) FROM attempts")).scalar_one()
    return Numbers(
        dict(states),
        dict(causes),
        len(requests),
        sum(count - 1 for count in asked.values()),
        dict(Counter(outcome for (outcome,) in session.execute(text(UNANSWERED)))),
        _recoveries(session, killed_at),
        float(longest or 0),
    )


def _recoveries(session: Session, killed_at: dict[int, float]) -> list[float]:
    rows = session.execute(
        text(
            "SELECT worker, outcome,"
            " extract(epoch FROM lead(started_at) OVER (PARTITION BY job_id ORDER BY generation)) FROM attempts"
        )
    )
    found = []
    for worker, outcome, next_started in rows:
        pid = int(worker.rsplit("-", 2)[1])
        if outcome == "lost" and next_started is not None and pid in killed_at:
            found.append(float(next_started) - killed_at[pid])
    return sorted(found)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the sorted values lies; 0 if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
