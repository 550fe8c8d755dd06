"""So many seconds, as the database counts them. Its clock decides, so what is added to it is made there too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Interval, func


def seconds(value: float | ColumnElement[Any]) -> ColumnElement[timedelta]:
    """An interval for the database to add to its own clock; of a number, or of an expression that is one."""
    return func.make_interval(0, 0, 0, 0, 0, 0, value, type_=Interval)
