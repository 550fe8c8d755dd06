from __future__ import annotations

import itertools

import pytest

from tasks.worker.poll_backoff import poll_delay


@pytest.mark.parametrize(
    ("age", "wait"), [(0, 2), (1, 2), (8, 2), (12, 3), (40, 10), (100, 25), (120, 30), (121, 30), (86_400, 30), (-5, 2)]
)
def test_the_wait_grows_with_the_age_between_two_bounds(age: float, wait: float) -> None:
    assert poll_delay(age) == wait


def test_an_answer_is_fetched_soon_and_a_long_one_is_not_asked_about_all_the_time() -> None:
    at, looks = 0.0, []
    while at < 600:
        at += poll_delay(at)
        looks.append(at)
    assert len(looks) < 40
    assert all(later - earlier <= max(2, earlier / 4) for earlier, later in itertools.pairwise(looks))
