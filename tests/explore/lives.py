"""Runs the state machine of `machine` for a number of examples, or for some time."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.explore.machine import SiteMachine
from tests.explore.testbed import Testbed

EXAMPLES_AT_ONCE = 10


def run_lives(testbed: Testbed, *, examples: int, rules: int, number: int, shrink: bool = True) -> Counter[str]:
    """Run this many lives of so many rules each, drawn by the number, and return what was counted.

    Raises AssertionError with the trace of a life that broke an invariant; `shrink` looks for the shortest one.
    """
    counts: Counter[str] = Counter()
    machine = type("Machine", (SiteMachine,), {"testbed": testbed, "counts": counts})
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=rules,
        deadline=None,
        database=None,
        print_blob=False,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(number)(machine), settings=chosen)
    return counts


def run_lives_for(testbed: Testbed, *, seconds: float, number: int, rules: int) -> tuple[Counter[str], list[str]]:
    """Run lives for this time. Return what was counted, and the traces of lives that broke an invariant."""
    end_at = time.monotonic() + seconds
    total: Counter[str] = Counter()
    broken: list[str] = []
    while time.monotonic() < end_at:
        try:
            total += run_lives(testbed, examples=EXAMPLES_AT_ONCE, rules=rules, number=number, shrink=False)
        except AssertionError as error:
            broken.append(str(error))
        number += 1
    return total, broken
