"""Mara's work before the pictures are taken. At the end she has a job in each of the seven states."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tasks.ledger.jobs import transitions
from tasks.ledger.states import State
from tests.screenshots import sample_documents
from tests.screenshots.clock import before
from tests.screenshots.site import MARA, Stage

PARTS_DONE, PARTS_AT_ONCE = 3, 4
HELD = {"mode": "gate", "name": "held"}


def play(stage: Stage) -> Mapping[str, uuid.UUID]:
    """Create her jobs and return them by the names that pictures use. The worker is frozen afterwards."""
    mara = stage.account(MARA)
    stage.make_token(MARA, "nightly report", before(days=12))
    stage.work_off(mara, sample_documents.LEASE_PAPER, before(days=3, hours=4), words="Lease of the shed")
    jobs = {
        "result": stage.work_off(
            mara, sample_documents.GUIDELINES_PAPER, before(hours=5, minutes=26), words="Grant guidelines"
        )
    }
    jobs["failed"] = stage.begin(
        mara, sample_documents.POLICY_PAPER, before(hours=4, minutes=12), HELD, words="(never asked)"
    )
    stage.wait_for(jobs["failed"], State.FAILED)
    at = before(hours=1, minutes=37)
    jobs["actions"] = stage.work_off(mara, sample_documents.MINUTES_PAPER, at, words="Minutes of the board", seconds=14)
    jobs["running"] = _begin_the_report(stage, mara)
    jobs["cancelling"] = stage.begin(
        mara, sample_documents.SURVEY_PAPER, before(seconds=50), HELD, words="How did you hear"
    )
    stage.wait_for_requests("How did you hear")
    busy = {"mode": "rate", "retry_after": 170}
    jobs["retrying"] = stage.begin(
        mara, sample_documents.TENDER_PAPER, before(seconds=30), busy, words="Tender for the roof"
    )
    stage.wait_for(jobs["retrying"], State.RETRY_WAIT)
    stage.freeze()
    with stage.database.transaction() as session:
        assert transitions.cancel(session, jobs["cancelling"], mara) is State.CANCEL_REQUESTED
    jobs["queued"] = stage.hand_in(mara, sample_documents.WATER_PAPER, before())
    return jobs


def _begin_the_report(stage: Stage, mara: uuid.UUID) -> uuid.UUID:
    """Begin the report: the first parts get responses at once; the next ones are held, up to the concurrency limit."""
    for number in range(1, PARTS_DONE + 1):
        stage.fake.script([{"mode": "ok", "text": "The year began with a storm."}], marker=f"This is part {number} of")
    job_id = stage.begin(mara, sample_documents.REPORT_PAPER, before(seconds=80), HELD, words="This is part")
    stage.wait_for_parts(job_id, PARTS_DONE)
    stage.wait_for_requests("This is part", PARTS_DONE + PARTS_AT_ONCE)
    return job_id


def change_her_mind(stage: Stage) -> uuid.UUID:
    """Cancel a job before a worker took it. Call it while there is no worker."""
    mara = stage.account(MARA)
    job_id = stage.hand_in(mara, sample_documents.NEWSLETTER_PAPER, before(days=1, hours=2))
    with stage.database.transaction() as session:
        assert transitions.cancel(session, job_id, mara) is State.CANCELLED
    return job_id
