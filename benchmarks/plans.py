"""Records the statements of a request, and how the database executes each: its plan, and big tables read whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, event


@dataclass
class Statement:
    """One statement as it was sent to the database."""

    text: str
    parameters: Any


@dataclass
class Explained:
    """The result of EXPLAIN ANALYZE for a statement.

    `seconds` is planning and execution, `scanned` the big tables read whole, `rows` how many rows of big tables were
    read, including those that did not match: an index can be read from end to end, too.
    """

    text: str
    seconds: float
    rows: int = 0
    scanned: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@contextmanager
def heard(engine: Engine) -> Iterator[list[Statement]]:
    """Record the SELECTs that go through this engine while the block runs."""
    found: list[Statement] = []

    def hear(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            found.append(Statement(statement, parameters))

    event.listen(engine, "before_cursor_execute", hear)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", hear)


def explained(connection: Connection, statement: Statement, big: Sequence[str]) -> Explained:
    """Run the statement once more, with EXPLAIN ANALYZE."""
    options = "ANALYZE, FORMAT JSON"
    answer = connection.exec_driver_sql(f"EXPLAIN ({options}) {statement.text}", statement.parameters).scalar_one()
    plan = (json.loads(answer) if isinstance(answer, str) else answer)[0]
    found = Explained(statement.text, (plan["Planning Time"] + plan["Execution Time"]) / 1000)
    _walk(plan["Plan"], 0, found, big)
    return found


def _walk(node: dict[str, Any], depth: int, found: Explained, big: Sequence[str]) -> None:
    name = node["Node Type"]
    where = node.get("Index Name") or node.get("Relation Name") or ""
    loops = node.get("Actual Loops", 1)
    rows = node.get("Actual Rows", 0) * loops
    found.lines.append(f"{'  ' * depth}{name} {where} rows={rows:.0f} {node.get('Actual Total Time', 0):.2f} ms")
    if node.get("Relation Name") in big:
        lost = sum(node.get(f"Rows Removed by {reason}", 0) for reason in ("Filter", "Index Recheck"))
        found.rows += round(rows + lost * loops)
    if name == "Seq Scan" and node.get("Relation Name") in big:
        found.scanned.append(node["Relation Name"])
    for child in node.get("Plans", []):
        _walk(child, depth + 1, found, big)
