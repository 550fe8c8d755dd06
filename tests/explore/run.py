"""python -m tests.explore.run [--minutes 2] [--seed 1]      tries pairs, triples and lives that are drawn by the seed

The seed decides what is drawn, and the time how much of it is run. Exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from tests.explore.lives import run_lives_for
from tests.explore.operations import OPERATIONS
from tests.explore.search import Explorer
from tests.explore.start_states import START_STATES
from tests.explore.testbed import open_testbed
from tests.explore.verdict import Report
from webapp.local.postgresql import postgresql
from webapp.local.services import temporary_directory

SHARE_OF_PAIRS, SHARE_OF_TRIPLES, SHARE_OF_LIVES = 0.6, 0.15, 0.25
AT_ONCE = 15
"""Schedules that run on one start state before the next is built, since building it takes time."""
MAX_SCHEDULES, MAX_SCHEDULES_OF_TRIPLE = 150, 60
RULES = 50
Chosen = tuple[str, tuple[str, ...]]


def draw(explorer: Explorer, number: int, seed: str) -> Iterator[Chosen]:
    """Yield all combinations of `number` operations in each start state where they are possible, in a drawn order."""
    drawn = random.Random(f"{seed} {number}")
    left: dict[str, list[tuple[str, ...]]] = {}
    for state in START_STATES:
        possible = [name for name in OPERATIONS if explorer.can_run(state, name)]
        left[state] = list(itertools.combinations_with_replacement(possible, number))
        drawn.shuffle(left[state])
    while left:
        for state in drawn.sample(sorted(left), len(left)):
            for _ in range(min(AT_ONCE, len(left[state]))):
                yield state, left[state].pop()
            if not left[state]:
                del left[state]


def run_for(explorer: Explorer, number: int, seed: str, seconds: float, max_schedules: int) -> tuple[int, Report]:
    """Run drawn combinations for this time. Return how many were run, and the report of all."""
    end_at = time.monotonic() + seconds
    total = Report()
    ran = 0
    for state, operations in draw(explorer, number, seed):
        if time.monotonic() > end_at:
            break
        report = explorer.explore(state, operations, max_schedules=max_schedules)
        for finding in report.findings.values():
            if finding.fault not in total.findings:
                print(f"\n{' | '.join(operations)}: {finding}\n", flush=True)
        total.merge(report)
        ran += 1
    return ran, total


def main(arguments: list[str]) -> int:
    """Explore for some minutes. Returns 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore.run", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", default="1")
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seconds = 60 * chosen.minutes
    began = time.monotonic()
    with (
        temporary_directory() as directory,
        postgresql(Path(directory) / "postgresql", throwaway=True) as address,
        open_testbed(address, actors=3) as testbed,
    ):
        explorer = Explorer(testbed)
        pairs, report = run_for(explorer, 2, chosen.seed, SHARE_OF_PAIRS * seconds, MAX_SCHEDULES)
        triples, of_triples = run_for(explorer, 3, chosen.seed, SHARE_OF_TRIPLES * seconds, MAX_SCHEDULES_OF_TRIPLE)
        report.merge(of_triples)
        first = random.Random(chosen.seed).randrange(2**32)
        lives, broken = run_lives_for(testbed, seconds=SHARE_OF_LIVES * seconds, number=first, rules=RULES)
    for trace in broken:
        print(f"\na life broke an invariant:\n{trace}\n")
    findings = len(report.findings) + len(broken)
    print(
        f"{pairs} pairs and {triples} triples in {report.schedules} schedules ({report.redundant} more were cut off as"
        f" redundant, {report.deadlocks} met a deadlock), {lives['lives']} lives with {lives['operations']} operations;"
        f" {findings} findings; {time.monotonic() - began:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
