"""Puts what is measured in an order in which a change of the machine's load is seen: A B A."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from benchmarks.beside_peers.systems import System

PEERS_BETWEEN = 3


def interleaved(ours: System, peers: Sequence[System], between: int) -> Iterable[System]:
    """Yield ours, then some peers, then ours again, and so on; ours is the last one, too."""
    for start in range(0, len(peers), between):
        yield ours
        yield from peers[start : start + between]
    yield ours


def measure_each(
    ours: System, peers: Sequence[System], measure: Callable[[System], None], between: int = PEERS_BETWEEN
) -> None:
    """Measure ours and the peers. A system that fails is left out, and the run goes on."""
    for system in interleaved(ours, peers, between):
        try:
            measure(system)
        except Exception as error:
            print(f"  {system.name} was not measured: {error}", file=sys.stderr, flush=True)
