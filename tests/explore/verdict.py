"""The verdict on one end: the invariants there, the answers, and the same invariants once everything is at rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.explore.answers import broken_answers, describe
from tests.explore.invariants import broken_invariants
from tests.explore.operations.registry import Effect
from tests.explore.rest import bring_to_rest
from tests.explore.testbed import Testbed
from tests.explore.world import World


@dataclass(frozen=True)
class Finding:
    """A fault, with the schedule that leads to it: each step as "operation: statement", and the answers."""

    fault: str
    state: str
    schedule: Sequence[str]
    answers: Sequence[str]

    @property
    def cost(self) -> tuple[int, int]:
        """Return how hard the schedule is to follow: changes between operations, then steps."""
        who = [step.split(":")[0] for step in self.schedule]
        return sum(first != second for first, second in pairwise(who)), len(self.schedule)

    def __str__(self) -> str:
        steps = "".join(f"\n    {step}" for step in self.schedule)
        return f"{self.fault}\n  from {self.state}:{steps}\n  answers: {', '.join(self.answers)}"


@dataclass
class Report:
    """The result of trying schedules. `findings` has the simplest schedule for each fault."""

    schedules: int = 0
    redundant: int = 0
    deadlocks: int = 0
    cut_short: bool = False
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """Return the broken invariants, without the deadlocks, which PostgreSQL ends."""
        return [fault for fault in self.findings if not fault.startswith("deadlock")]

    def add(self, found: Iterable[Finding]) -> None:
        """Keep these findings, unless there is a simpler schedule for the same fault."""
        for finding in found:
            known = self.findings.get(finding.fault)
            if known is None or finding.cost < known.cost:
                self.findings[finding.fault] = finding

    def merge(self, other: Report) -> None:
        """Add what another report has found."""
        self.schedules += other.schedules
        self.redundant += other.redundant
        self.deadlocks += other.deadlocks
        self.cut_short |= other.cut_short
        self.add(other.findings.values())

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.findings.values())) or "no finding"


class Judge:
    """Judges ends, and remembers how each kind of end came to rest."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._at_rest: dict[object, list[str]] = {}

    def faults(self, world: World, answers: Sequence[object], effects: Collection[Effect]) -> list[str]:
        """Return a sentence for each fault of this end."""
        snapshot = self._testbed.snapshot()
        faults = broken_invariants(snapshot, world, effects) + broken_answers(answers, snapshot, world, effects)
        queue = (len(world.queue.messages), len(world.queue.later), world.queue.flushed)
        key = snapshot.key(world), queue, frozenset(effects)
        if key not in self._at_rest:
            self._at_rest[key] = self._faults_at_rest(world, effects)
        return list(dict.fromkeys(faults + self._at_rest[key]))

    def _faults_at_rest(self, world: World, effects: Collection[Effect]) -> list[str]:
        try:
            ended = bring_to_rest(self._testbed.sessions, world)
        except Exception as error:
            return [f"on the way to rest: {describe(error)}"]
        faults = broken_invariants(self._testbed.snapshot(), world, effects, at_rest=True)
        return [f"at rest: {fault}" for fault in faults + ([] if ended else ["the site never comes to rest"])]
