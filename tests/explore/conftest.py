"""Fixtures of the explorer: one testbed for each process of a run, since it makes its own copies of all tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.explore.search import Explorer
from tests.explore.testbed import open_testbed


@pytest.fixture(scope="session")
def explorer(addresses: dict[str, str]) -> Iterator[Explorer]:
    """Return an explorer on a database of its own."""
    with open_testbed(addresses["DATABASE_URL"]) as testbed:
        yield Explorer(testbed)
