"""The day behind the operators' pages: other users' jobs, and a night in which the AI service rejected the key.

Created by the ledger's own functions while no worker runs, each step at its time by the standing clock.
"""

from __future__ import annotations

import random
import uuid
from datetime import datetime, timedelta
from unittest.mock import patch

from sqlalchemy import select

from tasks.ledger.calls import calls, lanes
from tasks.ledger.calls.calls import CallReport, NewCall
from tasks.ledger.errors import Category
from tasks.ledger.jobs import deadlines, transitions
from tasks.ledger.jobs.guarded_update import Claim, Refused
from tasks.ledger.models import Job
from tasks.ledger.models.control import Cause
from tasks.ledger.replays import operator_actions, replays
from tasks.ledger.replays.selection import Choice
from tasks.ledger.states import CallOutcome, State
from tests.screenshots.clock import before
from tests.screenshots.sample_documents import Paper
from tests.screenshots.site import MODEL, OPERATOR, WORKER, Stage, drawn_id
from tests.support import factories

PEOPLE = ("ines@harbour.example", "jonas@harbour.example", "tomasz@harbour.example")
NIGHT = range(8, 15)
"""Hours before an early afternoon."""
REFUSED_HOURS, PUT_RIGHT_HOURS = 9, 7
REFUSED_AT, PUT_RIGHT_AT = before(hours=REFUSED_HOURS, minutes=-9), before(hours=PUT_RIGHT_HOURS, minutes=17)
NAMES = ("Offer", "Letter", "Minutes", "Invoice", "Report", "Plan", "Rules")


class Past:
    """Plays the day, hour by hour, with a fixed random seed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._draw = random.Random("the day before")
        self._number = 0
        with stage.database.transaction() as session:
            self._people = [factories.make_account(session, email) for email in PEOPLE]

    def play(self) -> uuid.UUID:
        """Play the whole day. Returns the id of the replay that put the stopped jobs back."""
        for hour in range(23, REFUSED_HOURS, -1):
            self._hour(hour)
        self._refused(REFUSED_AT)
        for number in range(1, 6):
            self._met_a_stopped_lane(REFUSED_AT + timedelta(minutes=7 * number))
        replay_id = self._put_right(PUT_RIGHT_AT, 6)
        for hour in range(PUT_RIGHT_HOURS, 0, -1):
            self._hour(hour)
        return replay_id

    def _hour(self, hour: int) -> None:
        """Create the jobs of the hour that began this many hours ago: a few, and at night one."""
        for minute in sorted(self._draw.sample(range(2, 58), 1 if hour in NIGHT else self._draw.randint(3, 7))):
            self._one(before(hours=hour) + timedelta(minutes=minute, seconds=self._draw.randint(0, 59)))

    def _paper(self) -> Paper:
        self._number += 1
        title = f"{self._draw.choice(NAMES)} {self._number}"
        return Paper(title, f"{self._number}.txt", "txt", f"{title}. The harbour committee met.".encode())

    def _one(self, at: datetime) -> None:
        """Create a job: most are saved at once, some after a retry, one in twenty fails."""
        job_id = self._stage.hand_in(self._draw.choice(self._people), self._paper(), at)
        luck = self._draw.random()
        at += timedelta(seconds=self._draw.uniform(0.4, 6))
        claim = self._claim(job_id, at)
        if luck < 0.15:
            at += timedelta(seconds=8)
            self._stage.clock.set(at)
            with self._stage.database.transaction() as session:
                transitions.retry_later(
                    session, claim, category=Category.OVERLOADED, code="server_overloaded", delay_seconds=5
                )
            at += timedelta(seconds=5)
            claim = self._claim(job_id, at)
        if luck > 0.95:
            with self._stage.database.transaction() as session:
                transitions.fail(session, claim, category=Category.INVALID_DOCUMENT, code="no_text")
        else:
            self._save(claim, at, self._draw.uniform(6, 48))

    def _claim(self, job_id: uuid.UUID, at: datetime) -> Claim:
        claim = self._try_to_claim(job_id, at)
        assert isinstance(claim, Claim), claim
        return claim

    def _try_to_claim(self, job_id: uuid.UUID, at: datetime) -> Claim | Refused:
        lane = self._stage.settings.lane
        self._stage.clock.set(at)
        with self._stage.database.transaction() as session:
            return transitions.claim(
                session, job_id, worker=WORKER, lane=lane, lease_seconds=60, reservation_seconds=300
            )

    def _ask(self, claim: Claim) -> uuid.UUID:
        lane = self._stage.settings.lane
        with self._stage.database.transaction() as session:
            call = NewCall("summarise", lane, "openai", MODEL, limit=16, probe_seconds=60)
            call_id = calls.open_call(session, claim.job_id, claim.generation, call)
        assert isinstance(call_id, uuid.UUID), call_id
        return call_id

    def _save(self, claim: Claim, at: datetime, seconds: float) -> None:
        call_id = self._ask(claim)
        self._stage.clock.set(at + timedelta(seconds=seconds))
        tokens = self._draw.randint(900, 9_000)
        report = CallReport(CallOutcome.SUCCEEDED, http_status=200, input_tokens=tokens, output_tokens=tokens // 9)
        with self._stage.database.transaction() as session:
            calls.close_call(session, call_id, report)
            transitions.succeed(session, claim, text="The committee met.", facts={"model": MODEL})

    def _refused(self, at: datetime) -> None:
        """Have the AI service reject the site's key: the job fails, and the lane is stopped."""
        job_id = self._stage.hand_in(self._draw.choice(self._people), self._paper(), at)
        claim = self._claim(job_id, at + timedelta(seconds=1))
        call_id = self._ask(claim)
        self._stage.clock.set(at + timedelta(seconds=2))
        report = CallReport(CallOutcome.FAILED, Category.AUTH, "invalid_api_key", http_status=401)
        with self._stage.database.transaction() as session:
            calls.close_call(session, call_id, report)
            transitions.fail(session, claim, category=Category.AUTH, code="invalid_api_key")
            lanes.stop(session, self._stage.settings.lane, category=Category.AUTH, code="invalid_api_key")

    def _met_a_stopped_lane(self, at: datetime) -> None:
        """Create a job that waits behind the stopped lane until its deadline."""
        job_id = self._stage.hand_in(self._draw.choice(self._people), self._paper(), at)
        refused = self._try_to_claim(job_id, at + timedelta(seconds=1))
        assert refused == Refused("lane"), refused
        self._stage.clock.set(at + timedelta(seconds=self._stage.settings.job_deadline_seconds))
        with self._stage.database.transaction() as session:
            assert deadlines.end_at_deadline(session, job_id) is State.FAILED

    def _put_right(self, at: datetime, count: int) -> uuid.UUID:
        """Have the operator set a new key, open the lane, and replay the failed jobs, twelve a minute."""
        stage = self._stage
        queue, terms = stage.settings.queue_name, stage.settings.replay_terms
        stage.clock.set(at)
        with stage.database.transaction() as session:
            operator_actions.open_lane(
                session, queue, stage.settings.lane, by=OPERATOR, note="a new key is set", spread_seconds=0
            )
        stage.clock.set(at + timedelta(minutes=2))
        with patch("uuid.uuid4", drawn_id), stage.database.transaction() as session:
            replay_id = replays.begin(
                session,
                queue,
                Choice(category=Category.AUTH),
                cause=Cause.CREDENTIALS_RENEWED,
                note="The key had expired during the night.",
                by=OPERATOR,
                per_minute=12,
                terms=terms,
            )
        for number in range(count):
            moment = at + timedelta(minutes=2, seconds=5 * number)
            stage.clock.set(moment)
            with stage.database.transaction() as session:
                replays.carry_on(session, queue, terms, replay_id=replay_id)
            for job_id in self._queued():
                self._save(self._claim(job_id, moment + timedelta(seconds=1)), moment, 4)
        return replay_id

    def _queued(self) -> list[uuid.UUID]:
        with self._stage.database.transaction() as session:
            return list(session.execute(select(Job.id).where(Job.state == State.QUEUED)).scalars())
