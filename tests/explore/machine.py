"""Random lives of a few jobs, as a state machine of Hypothesis.

Three workers take messages from a queue that loses, repeats and delays them, time passes, processes die at any
statement, and often two operations run at once, in a drawn interleaving. At the end everything is brought to rest.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tasks.ledger.jobs import leases
from tasks.ledger.jobs.guarded_update import Claim
from tasks.ledger.notifications import preferences
from tests.explore.actor import Order
from tests.explore.answers import broken_by_errors, describe
from tests.explore.invariants import broken_invariants
from tests.explore.memory_queue import MemoryQueue
from tests.explore.operations import OPERATIONS, Effect
from tests.explore.operations.by_workers import claim_job
from tests.explore.rest import bring_to_rest, let_time_pass
from tests.explore.stage import Work
from tests.explore.testbed import Testbed
from tests.explore.world import ACCOUNT, HOLDER, World, sql
from tests.support import factories
from webapp.models import Account

OF_CLAIMS = (
    *("open_call", "progress", "save_answer", "save_answer", "succeed", "succeed", "retry_later", "fail", "release"),
    *("release_to_poll", "release_behind_lane", "close_call", "close_rate_limited_call", "close_call_with_refused_key"),
    *("close_call_with_server_error", "renew"),
)
OF_JOBS = (
    *("cancel", "show_late_job", "try_again", "try_again", "begin_replay", "reschedule", "decline_email_for_job"),
    *("delete_document", "accept_again", "end_at_deadline", "expire", "renumber"),
)
OF_SITE = (
    *("sweep", "sweep", "dispatch", "dispatch", "dispatch", "dispatch_after_flush", "carry_on_replays"),
    *("cancel_responses", "open_lane", "pause", "drain", "resume", "resume", "resume_one_at_once"),
    *("send_notifications", "raise_alerts", "disable_account", "enable_account"),
)
ACCEPT = {1: "accept_same", 2: "accept_second", 3: "accept_third", 4: "accept_fourth"}
DRAWS = strategies.integers(0, 2**32).map(random.Random)
CRASHES = strategies.none() | strategies.none() | strategies.integers(0, 14)
UNKNOWN = uuid.UUID(int=0)
MAX_HELD = 6


@dataclass
class Drawn:
    """An operation that was drawn, with the world that it sees."""

    name: str
    work: Work
    world: World


class SiteMachine(RuleBasedStateMachine):
    """A site with its jobs. `testbed` is set by a subclass."""

    testbed: ClassVar[Testbed]
    counts: ClassVar[Counter[str]] = Counter()

    @initialize()
    def open_site(self) -> None:
        """Begin with one account, one worker and one job."""
        self.testbed.empty()
        self.queue = MemoryQueue()
        self.worlds: list[World] = []
        self.held: list[World] = []
        self.trace: list[str] = []
        self.counts["lives"] += 1
        with self.testbed.sessions.begin() as session:
            session.add(Account(id=ACCOUNT, email="a@example.org", password_hash="-"))
            session.flush()
            preferences.set_webhook(session, ACCOUNT, "https://hook.example.org/")
            leases.record_heartbeat(session, HOLDER, queue=factories.QUEUE, slots=4)
        self.accept(1)

    @rule(draw=DRAWS, crash_at=CRASHES)
    def run_one(self, draw: random.Random, crash_at: int | None) -> None:
        """Run one operation, whose process may die."""
        self._play([self._draw(draw)], draw, crash_at)

    @rule(draw=DRAWS, crash_at=CRASHES)
    def run_two_at_once(self, draw: random.Random, crash_at: int | None) -> None:
        """Run two operations in a drawn interleaving; the process of the first may die."""
        self._play([self._draw(draw), self._draw(draw)], draw, crash_at)

    @rule(seconds=strategies.sampled_from([1, 3, 6, 20, 70, 200, 4000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        with self.testbed.sessions.begin() as session:
            let_time_pass(session, seconds)
        if seconds >= 3:
            self.queue.let_scheduled_run()
        self.trace.append(f"{seconds} s pass")

    @rule(draw=DRAWS, trouble=strategies.sampled_from(["lose", "repeat", "flush"]))
    def trouble_queue(self, draw: random.Random, trouble: str) -> None:
        """Lose or repeat a message, or lose everything."""
        if trouble == "flush":
            self.queue.flush()
        elif self.queue.messages:
            at = draw.randrange(len(self.queue.messages))
            message = self.queue.messages.pop(at)
            self.queue.messages += [message, message] if trouble == "repeat" else []
        self.trace.append(f"the queue: {trouble}")

    @rule(number=strategies.integers(1, 4))
    def accept(self, number: int) -> None:
        """Hand a document in."""
        self._play([self._operation(ACCEPT[number], self._world(UNKNOWN))], random.Random(0), None)
        self._look_for_jobs()

    @invariant()
    def keeps_its_promises(self) -> None:
        """Check every invariant."""
        if not hasattr(self, "worlds") or not self.worlds:
            return
        self._check(broken_invariants(self.testbed.snapshot(), self.worlds[0], tuple(Effect)))

    def teardown(self) -> None:
        """Bring the site to rest, and check again."""
        if not hasattr(self, "worlds") or not self.worlds:
            return
        world = self.worlds[0]
        ended = bring_to_rest(self.testbed.sessions, world)
        broken = broken_invariants(self.testbed.snapshot(), world, tuple(Effect), at_rest=True)
        self._check([f"at rest: {fault}" for fault in broken + ([] if ended else ["the site never comes to rest"])])

    def _world(self, job: uuid.UUID, document: uuid.UUID = UNKNOWN) -> World:
        return World(self.testbed.settings, job, document, queue=self.queue)

    def _look_for_jobs(self) -> None:
        """Get to know jobs that are new."""
        known = {world.job for world in self.worlds}
        with self.testbed.sessions.begin() as session:
            rows = sql(session, "SELECT id, document_id FROM jobs ORDER BY created_at, id").all()
        self.worlds += [self._world(job, document) for job, document in rows if job not in known]

    def _operation(self, name: str, world: World) -> Drawn:
        return Drawn(name, partial(OPERATIONS[name].run, world), world)

    def _draw(self, draw: random.Random) -> Drawn:
        """Draw an operation: mostly one of a worker, since only those bring the jobs on."""
        kinds = ["site", "job"] + ["claim"] * 2 * bool(self.queue.messages) + ["holder"] * 3 * bool(self.held)
        kind = draw.choice(kinds)
        if kind == "site":
            return self._operation(draw.choice(OF_SITE), self.worlds[0])
        if kind == "job":
            return self._operation(draw.choice(OF_JOBS), draw.choice(self.worlds))
        if kind == "holder":
            world = draw.choice(self.held)
            possible = [name for name in OF_CLAIMS if OPERATIONS[name].possible(world)]
            return self._operation(draw.choice(possible), world)
        job, _ = self.queue.messages.pop(draw.randrange(len(self.queue.messages)))
        world = self._world(job)
        return Drawn("claim", lambda actor: claim_job(world, actor, job), world)

    def _play(self, drawn: Sequence[Drawn], draw: random.Random, crash_at: int | None) -> None:
        """Run these operations in a drawn interleaving, and keep what workers were given."""
        stage = self.testbed.stage
        stage.begin([one.work for one in drawn])
        taken: list[int] = []
        while not stage.over:
            if stage.in_deadlock:
                stage.cancel(stage.blocked()[0])
                continue
            index = draw.choice(stage.ready())
            crashes = index == 0 and len(taken) == crash_at
            stage.step(index, Order.CRASH if crashes else Order.GO)
            taken.append(index)
        answers = [actor.outcome for actor in stage.playing]
        self.counts["operations"] += len(drawn)
        self.counts["steps"] += len(taken)
        order = "".join(map(str, taken)) if len(drawn) > 1 else ""
        said = " and ".join(f"{one.name} -> {describe(answer)}" for one, answer in zip(drawn, answers, strict=True))
        self.trace.append(f"{said} {order}")
        for one, answer in zip(drawn, answers, strict=True):
            self._keep(one, answer)
        self._check(list(broken_by_errors(answers)))

    def _keep(self, drawn: Drawn, answer: object) -> None:
        """Remember a claim or a call that a worker was given. A worker that has a claim refuses it a second time."""
        if isinstance(answer, Claim) and answer not in [world.claim for world in self.held]:
            self.held = [*self.held, replace(drawn.world, claim=answer)][-MAX_HELD:]
        elif drawn.name == "open_call" and isinstance(answer, uuid.UUID):
            drawn.world.call = answer

    def _check(self, faults: Sequence[str]) -> None:
        if faults:
            raise AssertionError("\n".join([*faults, "after:", *(f"    {line}" for line in self.trace)]))
