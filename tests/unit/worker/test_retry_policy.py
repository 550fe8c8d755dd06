from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks.ledger.errors import Category, JobError
from tasks.provider import ProviderError, may_have_been_billed
from tasks.worker.retry_policy import TRANSIENT, Facts, RetryIn, Stop, decide

NOW = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)


def facts(category: Category, **changed: Any) -> Facts:
    values: dict[str, Any] = {
        "category": category,
        "code": "why",
        "counts": True,
        "attempts": 1,
        "max_attempts": 3,
        "failures": 1,
        "lost_calls": 0,
        "attempt_seconds": 90,
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


@pytest.mark.parametrize(("failures", "ceiling"), [(1, 2.0), (2, 4.0), (3, 8.0), (7, 60.0), (6000, 60.0)])
def test_waits_double_up_to_a_minute_with_full_jitter(failures: int, ceiling: float) -> None:
    asked = facts(Category.OVERLOADED, failures=failures)
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
    assert isinstance(decide(facts(Category.UNCERTAIN, lost_calls=1)), RetryIn)
    assert decide(facts(Category.UNCERTAIN, lost_calls=2)) == Stop(Category.UNCERTAIN, "why")


def test_what_was_refused_before_any_work_is_tried_on_whatever_the_attempts() -> None:
    refused = facts(Category.OVERLOADED, counts=False, attempts=3, failures=30)
    assert isinstance(decide(refused, longest), RetryIn)
    assert decide(facts(Category.OVERLOADED, attempts=3, failures=30)) == Stop(Category.OVERLOADED, "why")


@pytest.mark.parametrize(("left", "tried"), [(92, True), (91, False), (1, False)])
def test_it_is_tried_on_as_long_as_a_whole_attempt_fits(left: float, tried: bool) -> None:
    refused = facts(Category.OVERLOADED, counts=False, deadline=NOW + timedelta(seconds=left))
    assert decide(refused, longest) == (RetryIn(2.0) if tried else Stop(Category.OVERLOADED, "why"))


@pytest.mark.parametrize(
    ("error", "billed"),
    [
        (ProviderError(Category.RATE_LIMITED, sent=True), False),
        (ProviderError(Category.OVERLOADED, sent=True), False),
        (ProviderError(Category.CONNECTION, sent=False), False),
        (ProviderError(Category.TIMEOUT, "call_budget", sent=False), False),
        (ProviderError(Category.UNCERTAIN, "call_budget", sent=True), True),
        (JobError(Category.TIMEOUT, "attempt_budget"), True),
        (JobError(Category.INTERNAL), True),
    ],
)
def test_only_what_may_have_been_billed_counts(error: JobError, billed: bool) -> None:
    assert may_have_been_billed(error) is billed


def test_no_attempt_is_planned_for_after_the_deadline() -> None:
    late = facts(Category.CONNECTION, deadline=NOW + timedelta(seconds=1))
    assert decide(late, longest) == Stop(Category.DEADLINE, "no_time_for_another_attempt")
