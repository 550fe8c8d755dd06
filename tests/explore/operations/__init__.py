"""The operations that are run against each other: what a worker, a background loop, a user or an operator does."""

from __future__ import annotations

from tests.explore.operations import by_loops, by_operators, by_users, by_workers  # noqa: F401  - they register theirs
from tests.explore.operations.registry import OPERATIONS, Effect, Operation

__all__ = ["OPERATIONS", "Effect", "Operation"]
