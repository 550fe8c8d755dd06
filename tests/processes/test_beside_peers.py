"""Tests that `make bench` works: a few jobs of Waybill, and of plain RQ, which needs no other packages than ours.

Figures are never checked here, only counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.beside_peers import pickup
from benchmarks.beside_peers.peer import Peer
from benchmarks.beside_peers.results import OURS, Part
from benchmarks.beside_peers.servers import Servers, running
from benchmarks.beside_peers.waybill import Waybill

JOBS, COUNTED = 3, 2
RQ = "RQ simple"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, throwaway=True) as found:
        yield found


@pytest.mark.timeout(150)  # starts four processes and two servers, which takes long beside other tests
def test_a_short_run_counts_what_each_system_does(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickup, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(pickup, "WARM_UP", 1)
    part = Part("a short run")
    for system in (Waybill(servers, slots=2), Peer(servers, RQ, slots=1, python=lambda _: Path(sys.executable))):
        pickup.measure_one(system, part, JOBS, COUNTED)
        marks = [mark for mark, _ in servers.ai("/_log") if mark]  # RQ's call to warm up has none
        assert len(marks) == len(set(marks)) == pickup.WARM_UP + JOBS + COUNTED
    assert part.figure(RQ, "statements, submit") == 1
    assert part.figure(RQ, "statements, worker") == 3
    assert part.figure(RQ, "commits in the WAL") == 3
    for name in ("statements, submit", "statements, worker", "commits in the WAL", "Redis commands"):
        assert (part.figure(OURS, name) or 0) > 0, name
        assert f"| {name} | **" in part.table()
