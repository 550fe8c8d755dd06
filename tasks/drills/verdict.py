"""Counts the outcome of a drill, from the rows and from the provider's requests, and compares it with the promise."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tasks.fake_provider.http_server import Seen
from tasks.ledger.models import Delivery, Job, ProviderCall, Result
from tasks.ledger.reports import job_views
from tasks.ledger.states import TERMINAL, CallOutcome, State

FREE_OF_CHARGE = frozenset({CallOutcome.FAILED})  # the provider itself refused the request


@dataclass(frozen=True)
class Findings:
    """Holds the counts over the jobs of one drill.

    `lost`: accepted jobs without an end. `otherwise`: jobs that ended in another state than expected. `duplicates`:
    results beyond the first of the same document. `calls`: requests that the provider saw. `twice`: requests that may
    have been billed although an earlier request of the same job may have been billed too. `unrecorded`: requests
    without a row.
    """

    lost: int
    otherwise: int
    duplicates: int
    calls: int
    twice: int
    unrecorded: int
    orphans: int
    owed: int

    def faults(self, *, twice_allowed: int) -> list[str]:
        """Return the problems as texts for the table."""
        counts = {
            "lost": self.lost,
            "ended otherwise than it should": self.otherwise,
            "duplicate results": self.duplicates,
            f"calls made twice, where {twice_allowed} may be": max(0, self.twice - twice_allowed),
            "calls without a row": self.unrecorded,
            "orphans": self.orphans,
            "deliveries still owed": self.owed,
        }
        return [f"{count} {what}" for what, count in counts.items() if count]


def examine(
    session: Session,
    *,
    queue: str,
    account_id: uuid.UUID,
    expected: Mapping[uuid.UUID, State],
    requests: Sequence[Seen],
) -> Findings:
    """Count the outcome. `expected` maps each accepted job to its expected end state."""
    of_account = Job.account_id == account_id
    states = {job_id: State(state) for job_id, state in session.execute(select(Job.id, Job.state).where(of_account))}
    results = session.execute(
        select(Job.document_id, func.count())
        .join(Result, Result.job_id == Job.id)
        .where(of_account)
        .group_by(Job.document_id)
    )
    twice, unrecorded = _asked_again(session, account_id, requests)
    return Findings(
        lost=sum(states.get(job_id) not in TERMINAL for job_id in expected)
        + sum(state not in TERMINAL for job_id, state in states.items() if job_id not in expected),
        otherwise=sum(states.get(job_id) in TERMINAL - {end} for job_id, end in expected.items()),
        duplicates=sum(count - 1 for _, count in results),
        calls=len(requests),
        twice=twice,
        unrecorded=unrecorded,
        orphans=job_views.orphans(session, grace_seconds=0, queue=queue),
        owed=session.execute(select(func.count()).select_from(Delivery).where(Delivery.queue == queue)).scalar_one(),
    )


def _asked_again(session: Session, account_id: uuid.UUID, requests: Sequence[Seen]) -> tuple[int, int]:
    """Return how many requests may have been billed after another of the same job, and how many have no row."""
    rows = {
        str(call_id): (job_id, CallOutcome(outcome))
        for call_id, job_id, outcome in session.execute(
            select(ProviderCall.id, ProviderCall.job_id, ProviderCall.outcome)
            .join(Job, Job.id == ProviderCall.job_id)
            .where(Job.account_id == account_id)
        )
    }
    known = [rows[seen.client_request_id] for seen in requests if seen.client_request_id in rows]
    maybe_billed = Counter(job_id for job_id, outcome in known if outcome not in FREE_OF_CHARGE)
    return sum(count - 1 for count in maybe_billed.values()), len(requests) - len(known)
