"""Tests the explorer itself: without any of the ledger's guards it finds a fault, and with it none."""

from __future__ import annotations

import pytest

from tests.explore.guards import GUARDS, Guard
from tests.explore.pairs import PAIRS, read_pairs
from tests.explore.search import Explorer


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_without_a_guard_the_explorer_finds_a_fault(
    explorer: Explorer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (guard.state, *guard.operations) in set(read_pairs(PAIRS)), "test_pairs.py sees that it is whole"
    guard.remove(monkeypatch)
    report = Explorer(explorer.testbed).explore(guard.state, guard.operations, stop_at_fault=True)
    assert report.faults
