"""Tests every interleaving of two operations that touch the same rows."""

from __future__ import annotations

import pytest

from tests.explore.pairs import PAIRS, THOROUGH_PAIRS, Pair, read_pairs
from tests.explore.search import Explorer

MAX_SCHEDULES = 400


def every(pairs: list[Pair]) -> pytest.MarkDecorator:
    ids = [f"{state}: {first} | {second}" for state, first, second in pairs]
    return pytest.mark.parametrize(("state", "first", "second"), pairs, ids=ids)


@every(list(read_pairs(PAIRS)))
def test_no_interleaving_of_two_operations_breaks_an_invariant(
    explorer: Explorer, state: str, first: str, second: str
) -> None:
    assert explorer.can_run(state, first, second)
    report = explorer.explore(state, [first, second])
    assert not report.findings, str(report)
    assert not report.cut_short


@pytest.mark.thorough
@pytest.mark.timeout(300)
@every(list(read_pairs(THOROUGH_PAIRS)))
def test_no_interleaving_of_two_long_operations_breaks_an_invariant(
    explorer: Explorer, state: str, first: str, second: str
) -> None:
    report = explorer.explore(state, [first, second], max_schedules=MAX_SCHEDULES)
    assert not report.findings, str(report)
