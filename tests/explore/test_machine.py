"""Tests random lives of a few jobs, and as the control, that they find a guard that was taken away."""

from __future__ import annotations

import pytest

from tasks.ledger.delivery import outbox
from tests.explore.lives import run_lives
from tests.explore.search import Explorer


def test_no_life_of_a_site_breaks_an_invariant(explorer: Explorer) -> None:
    counts = run_lives(explorer.testbed, examples=8, rules=25, number=1)
    assert counts["steps"] > 500


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(4))
def test_no_long_life_of_a_site_breaks_an_invariant(explorer: Explorer, number: int) -> None:
    run_lives(explorer.testbed, examples=30, rules=60, number=number)


def test_lives_find_a_guard_that_was_taken_away(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a claim leave its delivery, so that a held job is owed one."""
    monkeypatch.setattr(outbox, "consume", lambda session, job_id: False)
    with pytest.raises(AssertionError, match="is owed a delivery, although it does not wait"):
        run_lives(explorer.testbed, examples=8, rules=25, number=1, shrink=False)
