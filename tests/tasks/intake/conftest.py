from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.intake import IntakePool


@pytest.fixture(scope="package")
def pool() -> Iterator[IntakePool]:
    """Provide one warm child for all tests here, as a worker has it."""
    pool = IntakePool()
    yield pool
    pool.close()
