"""Formats the table that a run prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

HEAD = ("drill", "what was done", "lost", "duplicate results", "calls", "made twice", "recovery", "verdict")
TEXT_COLUMNS = {0, 1, 7}
PASSED, NOT_PLAYED = "passed", "not played"


@dataclass(frozen=True)
class Row:
    """Represents the row of a drill. A dash means not known, or that there was nothing to recover from."""

    drill: str
    done: str
    lost: str
    duplicates: str
    calls: str
    twice: str
    recovery: str
    verdict: str

    @property
    def failed(self) -> bool:
        """Return True unless the drill passed, or could not be played on this host."""
        return not self.verdict.startswith((PASSED, NOT_PLAYED))


def lines_of(rows: Sequence[Row]) -> list[str]:
    """Return the table as lines with aligned columns."""
    cells: list[tuple[str, ...]] = [HEAD, *(astuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    return [
        "  ".join(
            cell.ljust(width) if column in TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
