"""The facts that a Redis server reports about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerFacts:
    """Holds the facts that a Redis server reports about itself. None means not reported, or no limit.

    `snapshots` is its rule for saving, empty for never. `ahead_seconds` is how far its clock is ahead of this host's,
    accurate to within `unsure_seconds`.
    """

    version: str
    policy: str
    is_replica: bool
    is_cluster: bool
    append_only: bool
    snapshots: str | None
    writing_failed: bool
    used_bytes: int
    limit_bytes: int | None
    clients: int
    most_clients: int | None
    ahead_seconds: float
    unsure_seconds: float
