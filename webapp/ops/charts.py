"""Column charts as plain SVG without scripts or styles. Pure.

The drawing contains no text, so that it can be stretched to any width; the page puts labels beside it, and the same
figures into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEIGHT = 60.0
STEP = 10.0
WIDTH = 7.0


@dataclass(frozen=True)
class Column:
    """One rectangle. `series` is the index of its series, which gives the colour."""

    series: int
    x: float
    y: float
    height: float


@dataclass(frozen=True)
class Chart:
    """Columns of several series over the same positions. `values` are the figures; None where there is none."""

    title: str
    unit: str
    series: Sequence[str]
    values: Sequence[Sequence[float | None]]
    columns: Sequence[Column]
    highest: float

    @property
    def width(self) -> float:
        """Return the width of the drawing, in its own units."""
        return STEP * len(self.values)


def chart(title: str, series: Mapping[str, Sequence[float | None]], *, unit: str = "", stacked: bool = True) -> Chart:
    """Draw the series, each with a figure for every position. `stacked` puts them on top of each other.

    Otherwise they are drawn one before the other; the first is behind and should be the higher.
    """
    values = list(zip(*series.values(), strict=True))
    tops = [(sum if stacked else max)([value or 0 for value in values_at]) for values_at in values]
    highest = max(tops, default=0)
    columns = []
    for at, values_at in enumerate(values):
        base = HEIGHT
        for number, value in enumerate(values_at):
            height = round(HEIGHT * (value or 0) / highest, 2) if highest else 0
            if height:
                columns.append(Column(number, at * STEP + (STEP - WIDTH) / 2, round(base - height, 2), height))
                base -= height if stacked else 0
    return Chart(title, unit, list(series), values, columns, highest)
