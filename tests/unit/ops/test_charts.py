"""Columns are as high as their figures say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.ops.charts import HEIGHT, STEP, chart

FIGURES = st.lists(st.tuples(*[st.none() | st.floats(0, 1e6)] * 3), min_size=1, max_size=30)


@given(FIGURES, st.booleans())
def test_no_column_leaves_the_drawing_and_the_highest_place_reaches_its_top(
    places: list[tuple[float | None, ...]], stacked: bool
) -> None:
    drawn = chart("x", dict(zip("abc", zip(*places, strict=True), strict=True)), stacked=stacked)
    assert drawn.width == STEP * len(places)
    for column in drawn.columns:
        assert 0 <= column.x < drawn.width and column.height > 0
        assert column.y >= -0.1 and column.y + column.height <= HEIGHT + 0.1
    if drawn.highest > 0:
        assert min(column.y for column in drawn.columns) < 0.1


def test_stacked_columns_stand_on_each_other_and_the_others_on_the_ground() -> None:
    stacked = chart("x", {"a": [1], "b": [3]}).columns
    assert [(column.y, column.height) for column in stacked] == [(45, 15), (0, 45)]
    behind = chart("x", {"p95": [4], "p50": [1]}, stacked=False).columns
    assert [(column.y, column.height) for column in behind] == [(0, 60), (45, 15)]


def test_nothing_is_drawn_where_there_is_no_figure() -> None:
    assert chart("x", {"a": [0, None, 0]}).columns == []
