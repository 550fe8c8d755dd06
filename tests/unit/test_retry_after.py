from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tasks.retry_after import retry_after_seconds

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "60"}, 60.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "0", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:02:00 GMT"}, 120.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:02:00 -0000"}, 120.0),
        ({"retry-after": "Sun, 29 Nov 2026 13:02:00 +0100"}, 120.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:00 GMT"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, None),
        ({"retry-after": "Sun, 99 Nov 2026 11:00:00 GMT"}, None),
        ({"retry-after": "Sun, 29 Nov 99999999999 11:00:00 GMT"}, None),
    ],
)
def test_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, now=NOW) == seconds


@pytest.mark.parametrize("value", ["", "0", "-5", "nan", "inf", "-inf", "1e400", "soon", "1,5", "0x10", "9" * 5000])
def test_odd_value_counts_as_not_said(value: str) -> None:
    assert retry_after_seconds({"retry-after": value}, now=NOW) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "1e9"},
        {"retry-after-ms": "1e15"},
        {"retry-after": "86401"},
        {"retry-after": "Fri, 29 Nov 2036 12:00:00 GMT"},
    ],
)
def test_one_odd_value_closes_a_site_for_a_day_at_most(headers: dict[str, str]) -> None:
    assert retry_after_seconds(headers, now=NOW) == 86400.0


def test_now_is_the_default() -> None:
    assert retry_after_seconds({"retry-after": "Fri, 31 Dec 2999 00:00:00 GMT"}) == 86400.0
