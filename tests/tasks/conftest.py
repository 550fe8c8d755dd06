"""Fixtures for tests of single attempts and sweeps."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tasks.database import Database
from tests.support.worker_bench import OpenBench, WorkerHarness, worker_harness


@pytest.fixture
def at(addresses: dict[str, str], database: Database, account_id: uuid.UUID) -> Iterator[OpenBench]:
    """`at({"mode": "ok"}, provider_concurrency=1)` is a bench in background mode with this script and settings."""
    with ExitStack() as stack:

        def opened(*steps: dict[str, Any], **changed: Any) -> WorkerHarness:
            here = stack.enter_context(worker_harness(addresses, database, account_id, **changed))
            here.fake.script(steps)
            return here

        yield opened
