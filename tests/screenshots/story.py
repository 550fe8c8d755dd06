"""What Mara did before the pictures are taken. At the end one of her jobs is in each of the seven states."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tasks.ledger import transitions
from tasks.ledger.states import State
from tests.screenshots import papers
from tests.screenshots.clock import before
from tests.screenshots.papers import Paper
from tests.screenshots.stage import MARA, Stage

PARTS_DONE = 3


def play(stage: Stage) -> Mapping[str, uuid.UUID]:
    """Her jobs, by the word that pictures know them by. The worker is frozen after it."""
    mara = stage.account(MARA)
    stage.make_token(MARA, "nightly report", before(days=12))
    stage.work_off(mara, papers.LEASE_PAPER, before(days=3, hours=4))
    jobs = {"result": stage.work_off(mara, papers.GUIDELINES_PAPER, before(hours=5, minutes=26))}
    jobs["failed"] = stage.begin(mara, papers.POLICY_PAPER, before(hours=4, minutes=12))
    stage.wait_for(jobs["failed"], State.FAILED)
    jobs["actions"] = stage.work_off(mara, papers.MINUTES_PAPER, before(hours=1, minutes=37), seconds=14)
    jobs["running"] = _begin_the_report(stage, mara)
    jobs["cancelling"] = _begin_and_hold(stage, mara, papers.SURVEY_PAPER)
    jobs["retrying"] = stage.begin(mara, papers.TENDER_PAPER, before(seconds=30), {"mode": "rate", "retry_after": 170})
    stage.wait_for(jobs["retrying"], State.RETRY_WAIT)
    stage.freeze()
    with stage.database.transaction() as session:
        assert transitions.cancel(session, jobs["cancelling"], mara) is State.CANCEL_REQUESTED
    jobs["queued"] = stage.hand_in(mara, papers.WATER_PAPER, before())
    return jobs


def _begin_the_report(stage: Stage, mara: uuid.UUID) -> uuid.UUID:
    for number in range(1, PARTS_DONE + 1):
        stage.fake.script([{"mode": "ok", "text": "The year began with a storm."}], marker=f"This is part {number} of")
    job_id = stage.begin(mara, papers.REPORT_PAPER, before(seconds=80))
    stage.wait_for_parts(job_id, PARTS_DONE)
    return job_id


def _begin_and_hold(stage: Stage, mara: uuid.UUID, paper: Paper) -> uuid.UUID:
    asked = len(stage.fake.requests)
    job_id = stage.begin(mara, paper, before(seconds=50))
    stage.fake.wait_for_requests(asked + 1, timeout=60)
    return job_id


def change_her_mind(stage: Stage) -> uuid.UUID:
    """A job that is cancelled before anybody took it; to be played while there is no worker."""
    mara = stage.account(MARA)
    job_id = stage.hand_in(mara, papers.NEWSLETTER_PAPER, before(days=1, hours=2))
    with stage.database.transaction() as session:
        assert transitions.cancel(session, job_id, mara) is State.CANCELLED
    return job_id
