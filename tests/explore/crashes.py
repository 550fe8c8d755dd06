"""Lets a process die before each statement of an operation, or lose the answer to each of its commits.

After a crash the site comes to rest without that process. Where an answer got lost, the process lives: a worker repeats
the work, and a loop or a request fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.explore.actor import Order
from tests.explore.search import Explorer
from tests.explore.verdict import Report


def crash_everywhere(explorer: Explorer, state: str, operation: str) -> Report:
    """Run the operation once for each of its steps, and let its process die there."""
    report = Report()
    step = 0
    while _run(explorer, state, operation, report, crash_at=step):
        step += 1
    return report


def lose_every_answer(explorer: Explorer, state: str, operation: str) -> Report:
    """Run the operation once for each of its commits, and lose the answer to it."""
    report = Report()
    _run(explorer, state, operation, report)
    for commit in range(1, explorer.stage.actors[0].commits + 1):
        _run(explorer, state, operation, report, lost_answers=[commit])
    return report


def _run(
    explorer: Explorer,
    state: str,
    operation: str,
    report: Report,
    *,
    crash_at: int | None = None,
    lost_answers: Sequence[int] = (),
) -> bool:
    """Run the operation alone, and judge the end. Returns True if its process died."""
    world = explorer.begin(state, [operation], lost_answers)
    schedule: list[str] = []
    died = False
    while not explorer.stage.over:
        brief = explorer.stage.actors[0].pending.brief
        died = len(schedule) == crash_at
        schedule.append(f"{operation}: {'dies before ' if died else ''}{brief}")
        explorer.stage.step(0, Order.CRASH if died else Order.GO)
    schedule += [f"{operation}: has lost the answer to commit {number}" for number in lost_answers]
    report.schedules += 1
    report.add(explorer.judge_end(world, state, [operation], schedule))
    return died
