from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks.ledger.errors import Category
from tasks.worker.retry_policy import TRANSIENT, Facts, RetryIn, Stop, decide

NOW = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)


def facts(category: Category, **changed: Any) -> Facts:
    values: dict[str, Any] = {
        "category": category,
        "code": "why",
        "attempts": 1,
        "max_attempts": 3,
        "unknown_calls": 0,
        "deadline": NOW + timedelta(seconds=600),
        "now": NOW,
    }
    return Facts(**{**values, **changed})


def longest(_: float, high: float) -> float:
    return high


@pytest.mark.parametrize("category", sorted(TRANSIENT))
def test_a_passing_cause_is_tried_again(category: Category) -> None:
    assert isinstance(decide(facts(category)), RetryIn)


@pytest.mark.parametrize("category", sorted(set(Category) - TRANSIENT - {Category.UNCERTAIN}))
def test_a_lasting_cause_stops_at_once_and_keeps_its_name(category: Category) -> None:
    assert decide(facts(category)) == Stop(category, "why")


@pytest.mark.parametrize(("attempts", "ceiling"), [(1, 2.0), (2, 4.0), (3, 8.0), (7, 60.0), (60, 60.0)])
def test_waits_double_up_to_a_minute_with_full_jitter(attempts: int, ceiling: float) -> None:
    asked = facts(Category.OVERLOADED, attempts=attempts, max_attempts=99)
    assert decide(asked, longest) == RetryIn(ceiling)
    assert decide(asked, lambda low, _: low) == RetryIn(0.0)


@pytest.mark.parametrize("seconds", [0.25, 1.0, 90.0, 599.0])
def test_a_providers_delay_is_a_floor_and_is_not_undercut(seconds: float) -> None:
    decision = decide(facts(Category.RATE_LIMITED, retry_after_seconds=seconds), lambda low, _: low)
    assert decision == RetryIn(seconds)


@pytest.mark.parametrize("seconds", [600.0, 900.0, 1e9])
def test_a_delay_past_the_deadline_stops_the_job_now(seconds: float) -> None:
    decision = decide(facts(Category.RATE_LIMITED, retry_after_seconds=seconds))
    assert decision == Stop(Category.DEADLINE, "asked_to_wait_too_long")


def test_attempts_are_bounded() -> None:
    assert decide(facts(Category.OVERLOADED, attempts=3)) == Stop(Category.OVERLOADED, "why")


def test_an_answer_that_may_have_been_billed_is_asked_for_once_more_at_most() -> None:
    assert isinstance(decide(facts(Category.UNCERTAIN, unknown_calls=1)), RetryIn)
    assert decide(facts(Category.UNCERTAIN, unknown_calls=2)) == Stop(Category.UNCERTAIN, "why")


def test_no_attempt_is_planned_for_after_the_deadline() -> None:
    late = facts(Category.CONNECTION, deadline=NOW + timedelta(seconds=1))
    assert decide(late, longest) == Stop(Category.DEADLINE, "no_time_for_another_attempt")
