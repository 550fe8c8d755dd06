"""Intervals as SQL expressions: times are compared by the database's clock, so they are also computed there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Interval, func


def seconds(value: float | ColumnElement[Any]) -> ColumnElement[timedelta]:
    """Return an SQL interval of `value` seconds. `value` is a number, or an SQL expression that gives a number."""
    return func.make_interval(0, 0, 0, 0, 0, 0, value, type_=Interval)
