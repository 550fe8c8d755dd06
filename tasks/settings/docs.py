"""Generates docs/settings.md from the settings: `make settings` writes it, and a test compares it."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tasks.settings import Settings

HEAD = """\
# Settings

Read from the environment. An empty variable counts as not set. A process that is set up wrongly does not start, and
says which setting is wrong. Durations are in seconds. The limits on an attempt have to nest;
`python -m tasks preflight` shows them in their order.

This page is made from `tasks/settings/__init__.py` by `make settings`.

| setting | default | may be | what it does |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(f"{_row(name, field)}\n" for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name.upper()}`", _default(field), _bounds(field), field.description or "")
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None or field.default == "":
        return ""
    if isinstance(field.default, bool):
        return str(int(field.default))
    return str(field.default)


def _bounds(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(field.annotation))
    if field.annotation is bool:
        return "0, 1"
    bounds = []
    for bound in field.metadata:
        for name, words in (("gt", "more than"), ("ge", "at least"), ("le", "at most")):
            limit: Any = getattr(bound, name, None)
            if limit is not None:
                bounds.append(f"{words} {limit}")
    return ", ".join(bounds)
