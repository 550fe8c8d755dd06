"""Measures the recovery after a kill, as `python -m benchmarks.recovery` does, with fewer kills."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import recovery
from benchmarks.beside_peers.results import OURS, Part, percentile
from benchmarks.beside_peers.servers import Servers

JOBS_AT_ONCE = 16


def measure(servers: Servers, peers: Sequence[str], kills: int = 5) -> dict[str, Part]:
    """Kill one of two workers so many times. The other benchmark runs its own services."""
    part = Part("Recovery: from the kill of a worker until the AI service has its requests again", compares=False)
    with recovery.running() as (site, variables):
        took = recovery.measure(site, variables, kills, JOBS_AT_ONCE)
    part.add(
        OURS,
        {
            "kills": kills,
            "lost calls": len(took),
            "p50, s": percentile(took, 50),
            "p95, s": percentile(took, 95),
            "longest, s": max(took),
        },
    )
    return {"recovery": part}
