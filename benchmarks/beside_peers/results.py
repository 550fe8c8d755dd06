"""Keeps the figures of a run, and prints them: first the ratio, then the peer's own figure."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OURS = "Waybill"
LOAD = "load average"


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile of values; NaN if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("nan")


def machine() -> str:
    """Return the date, the machine and its load in a line."""
    processors = f"{os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, {processors}, load average {load():.1f}"


def load() -> float:
    return os.getloadavg()[0]


@dataclass
class Part:
    """The figures of one part: for each system, each of its runs."""

    title: str
    compares: bool = True
    """Says that Waybill's figure is divided by those of the others. Otherwise each system is a row of the table."""
    runs: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    details: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def add(self, system: str, figures: Mapping[str, float], **details: Any) -> None:
        """Add a run of a system, with the load average of its moment."""
        run = {**figures, LOAD: round(load(), 2)}
        self.runs.setdefault(system, []).append(run)
        self.details.setdefault(system, []).append(details)
        facts = ", ".join(f"{name} {shown(value)}" for name, value in run.items())
        print(f"  {system}: {facts}", file=sys.stderr, flush=True)

    def figure(self, system: str, name: str) -> float | None:
        """Return the median over the runs of a system; None if it was not measured."""
        found = [run[name] for run in self.runs.get(system, []) if name in run]
        return statistics.median(found) if found else None

    def table(self) -> str:
        """Return a table in Markdown: a row for each figure, a column for each system."""
        systems = list(self.runs)
        names = list(dict.fromkeys(name for runs in self.runs.values() for run in runs for name in run))
        if not self.compares:
            lines = [f"### {self.title}", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
            lines += [f"| {system} | {' | '.join(self._cell(system, name) for name in names)} |" for system in systems]
            return "\n".join(lines)
        lines = [f"### {self.title}", "", f"| | {' | '.join(systems)} |", "|---" * (len(systems) + 1) + "|"]
        lines += [f"| {name} | {' | '.join(self._cell(system, name) for system in systems)} |" for name in names]
        return "\n".join(lines)

    def _cell(self, system: str, name: str) -> str:
        value, ours = self.figure(system, name), self.figure(OURS, name)
        if value is None:
            return "–"
        if system == OURS or name == LOAD or ours is None:
            return f"**{shown(value)}**" if system == OURS and name != LOAD else shown(value)
        return f"{shown(ours / value)} × ({shown(value)})" if value else f"({shown(value)})"


def shown(value: float) -> str:
    """Return a number with about three digits."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def keep(parts: Mapping[str, Part], file: Path) -> None:
    """Write all figures and details to a file, beside those of parts that were measured earlier."""
    known = json.loads(file.read_text()) if file.exists() else {}
    for name, part in parts.items():
        known[name] = {"measured": machine(), "title": part.title, "runs": part.runs, "details": part.details}
    file.write_text(json.dumps(known, indent=1, default=str))
