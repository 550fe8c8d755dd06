"""Searches all interleavings of operations, but each that differs only in the order of independent steps once.

A depth-first search without stored states: each schedule is run again from the start state. Sleep sets leave out the
orders that were tried before; see chapter 5 of Godefroid, "Partial-Order Methods for the Verification of Concurrent
Systems" (1996). Besides, a step that nobody else can notice is taken at once: what each operation does in a start state
is known from earlier schedules, so the search is repeated if it turns out that somebody could have noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.explore.answers import describe
from tests.explore.deadlocks import is_known
from tests.explore.footprint import Footprint, independent
from tests.explore.operations import OPERATIONS
from tests.explore.testbed import Testbed
from tests.explore.verdict import Finding, Judge, Report
from tests.explore.world import World

MAX_SCHEDULES = 150
MAX_REPEATS = 5


@dataclass
class Node:
    """A point of a schedule at which there was a choice: which actor goes on, or which is the victim of a deadlock."""

    ready: list[int]
    offered: list[int]
    asleep: frozenset[int]
    pending: dict[int, Footprint]
    is_deadlock: bool = False
    tried: list[int] = field(default_factory=list)
    performed: Footprint | None = None

    def __post_init__(self) -> None:
        self.choice = self.offered[0]

    def next_choice(self) -> bool:
        """Choose what was not tried yet. Returns False if everything was."""
        self.tried.append(self.choice)
        left = [index for index in self.offered if index not in self.tried and index not in self.asleep]
        if left:
            self.choice = left[0]
        return bool(left)

    def asleep_after(self, ready: list[int]) -> frozenset[int]:
        """Return the actors that need not go on right after this choice, since going on before it was tried."""
        if self.is_deadlock or self.performed is None:
            return frozenset()
        earlier = (set(self.asleep) | set(self.tried)) & set(ready) - {self.choice}
        return frozenset(index for index in earlier if independent(self.pending[index], self.performed))


class Footprints:
    """The steps that each operation was seen to take in each start state."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, Footprint]] = {}

    def add(self, state: str, operation: str, step: Footprint) -> None:
        """Note a step."""
        known = self._known.setdefault((state, operation), {})
        before = known.get(step.brief)
        known[step.brief] = step if before is None else before.joined(step)

    def are_known(self, state: str, operation: str) -> bool:
        """Return True if this operation was seen in this start state."""
        return (state, operation) in self._known

    def nothing_meets(self, state: str, operation: str, step: Footprint) -> bool:
        """Return True if this operation never takes a step whose order with `step` matters."""
        return all(independent(step, other) for other in self._known.get((state, operation), {}).values())


class Explorer:
    """Runs schedules on a testbed and has their ends judged."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.stage = testbed.stage
        self.judge = Judge(testbed)
        self.footprints = Footprints()

    def begin(self, state: str, operations: Sequence[str], lost_answers: Sequence[int] = ()) -> World:
        """Put the start state back, and begin the operations there."""
        world = self.testbed.put_back(state)
        chosen = [OPERATIONS[name] for name in operations]
        works = [lambda actor, one=operation: one.run(world, actor) for operation in chosen]
        self.stage.begin(works, lost_answers)
        return world

    def can_run(self, state: str, *operations: str) -> bool:
        """Return True if this start state has what these operations need."""
        world = self.testbed.put_back(state)
        return all(OPERATIONS[name].possible(world) for name in operations)

    def judge_end(self, world: World, state: str, operations: Sequence[str], schedule: Sequence[str]) -> list[Finding]:
        """Return the findings at this end."""
        answers = [actor.outcome for actor in self.stage.playing]
        effects = frozenset().union(*(OPERATIONS[name].effects for name in operations))
        said = [f"{name}: {describe(answer)}" for name, answer in zip(operations, answers, strict=True)]
        return [Finding(fault, state, tuple(schedule), said) for fault in self.judge.faults(world, answers, effects)]

    def explore(
        self,
        state: str,
        operations: Sequence[str],
        *,
        max_schedules: int = MAX_SCHEDULES,
        stop_at_fault: bool = False,
    ) -> Report:
        """Try every interleaving of these operations from this start state, up to `max_schedules`.

        `stop_at_fault`: only until one breaks an invariant, which need not be the simplest.
        """
        for name in operations:
            if not self.footprints.are_known(state, name):
                alone = _Search(self, state, [name]).run(1)
                if alone.findings:
                    return alone
        for _ in range(MAX_REPEATS):
            search = _Search(self, state, operations)
            report = search.run(max_schedules, stop_at_fault=stop_at_fault)
            if search.is_complete or report.cut_short or report.findings:
                break
        return report


class _Search:
    """One search through the interleavings of some operations."""

    def __init__(self, explorer: Explorer, state: str, operations: Sequence[str]) -> None:
        self._explorer = explorer
        self._stage = explorer.stage
        self._state = state
        self._operations = operations
        self._path: list[Node] = []
        self._report = Report()
        self._unnoticed: list[tuple[int, Footprint]] = []

    @property
    def is_complete(self) -> bool:
        """Return True if, as is known by now, nobody could notice the steps that were taken at once."""
        return all(self._nobody_notices(index, step) for index, step in self._unnoticed)

    def run(self, max_schedules: int, *, stop_at_fault: bool = False) -> Report:
        """Run one schedule after the other."""
        while True:
            self._run_schedule()
            while self._path and not self._path[-1].next_choice():
                self._path.pop()
            if not self._path:
                return self._report
            stops = stop_at_fault and bool(self._report.faults)
            if stops or self._report.schedules + self._report.redundant >= max_schedules:
                self._report.cut_short = True
                return self._report

    def _run_schedule(self) -> None:
        """Follow the choices of the path, and then the first choice at each new point, to an end."""
        world = self._explorer.begin(self._state, self._operations)
        schedule: list[str] = []
        depth = 0
        while not self._stage.over:
            if depth < len(self._path) and not self._is_at(self._path[depth]):
                del self._path[depth:]  # rows that the server returns in any order came in another one this time
            if depth == len(self._path) and not self._add_node(schedule):
                self._stage.abandon()
                self._report.redundant += 1
                return
            self._take(self._path[depth], schedule)
            depth += 1
        self._report.schedules += 1
        self._report.add(self._explorer.judge_end(world, self._state, self._operations, schedule))

    def _is_at(self, node: Node) -> bool:
        return node.ready == (self._stage.blocked() if node.is_deadlock else self._stage.ready())

    def _take(self, node: Node, schedule: list[str]) -> None:
        name = self._operations[node.choice]
        step = self._stage.actors[node.choice].pending
        if node.is_deadlock:
            schedule.append(f"{name}: is the victim of the deadlock at {step.brief}")
            self._stage.cancel(node.choice)
        else:
            schedule.append(f"{name}: {step.brief}")
            node.performed = self._stage.step(node.choice)

    def _add_node(self, schedule: list[str]) -> bool:
        """Add the choices at a new point. Returns False if each of them was tried in another order."""
        if self._stage.in_deadlock:
            blocked = self._stage.blocked()
            self._report.deadlocks += 1
            self._note_deadlock(blocked, schedule)
            self._path.append(Node(blocked, blocked, frozenset(), {}, is_deadlock=True))
            return True
        ready = self._stage.ready()
        pending = {index: self._stage.actors[index].pending for index in ready}
        for index, step in pending.items():
            self._explorer.footprints.add(self._state, self._operations[index], step)
        asleep = self._path[-1].asleep_after(ready) if self._path else frozenset()
        offered = [index for index in ready if index not in asleep]
        if not offered:
            return False
        unnoticed = [index for index in offered if self._nobody_notices(index, pending[index])][:1]
        self._unnoticed += [(index, pending[index]) for index in unnoticed]
        self._path.append(Node(ready, unnoticed or offered, asleep, pending))
        return True

    def _nobody_notices(self, index: int, step: Footprint) -> bool:
        others = [name for other, name in enumerate(self._operations) if other != index]
        return all(self._explorer.footprints.nothing_meets(self._state, name, step) for name in others)

    def _note_deadlock(self, blocked: Sequence[int], schedule: Sequence[str]) -> None:
        waits = {index: (self._operations[index], self._stage.actors[index].pending.brief) for index in blocked}
        if not is_known(waits):
            said = sorted(f"{name} at {step}" for name, step in waits.values())
            finding = Finding(f"deadlock of {' and '.join(said)}", self._state, tuple(schedule), [])
            self._report.add([finding])
