"""Prints the measurements."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence

from benchmarks.pages import Measured
from benchmarks.plans import Explained

ALLOWED_SECONDS = 0.1
ALLOWED_ROWS = 100_000


def print_all(measured: Sequence[Measured], *, every_plan: bool) -> int:
    """Print the table, the plans, and the verdict. Returns 0 if all is well."""
    width = max(len(one.name) for one in measured)
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"{load:.1f} processes wanted one of the {cores} processors, in the last minute\n")
    print(f"{'':<{width}}   median    worst  processor   database  statements  rows looked at")
    for one in measured:
        database = sum(statement.seconds for statement in one.statements)
        print(
            f"{one.name:<{width}} {1000 * one.median:>6.1f} ms {1000 * one.worst:>5.1f} ms"
            f" {1000 * one.busy:>7.1f} ms {1000 * database:>7.1f} ms"
            f"  {len(one.statements):>10} {one.rows:>15,}{mark(one)}"
        )
    print("\nPlans" if every_plan else "\nThe plan of the slowest statement of each")
    seen: set[str] = set()
    for one in measured:
        for statement in one.statements if every_plan else slowest(one):
            if statement.text not in seen:
                seen.add(statement.text)
                print_plan(one, statement)
    slow = [one.name for one in measured if one.median >= ALLOWED_SECONDS]
    scanned = {one.name: one.scanned for one in measured if one.scanned}
    print(f"\nslower than {1000 * ALLOWED_SECONDS:.0f} ms (median): {', '.join(slow) or 'none'}")
    print(f"slower than that once: {', '.join(one.name for one in measured if one.worst >= ALLOWED_SECONDS) or 'none'}")
    print(f"big tables read from end to end: {scanned or 'none'}")
    many = [one.name for one in measured if one.rows > ALLOWED_ROWS]
    print(f"more than {ALLOWED_ROWS:,} rows of big tables looked at: {', '.join(many) or 'none'}")
    return 1 if slow or scanned or many else 0


def mark(one: Measured) -> str:
    marks = ["  SLOW"] if one.median >= ALLOWED_SECONDS else []
    marks += ["  MANY ROWS"] if one.rows > ALLOWED_ROWS else []
    return "".join([*marks, *(f"  SEQUENTIAL SCAN of {table}" for table in one.scanned)])


def slowest(one: Measured) -> list[Explained]:
    return sorted(one.statements, key=lambda statement: statement.seconds)[-1:]


def print_plan(one: Measured, statement: Explained) -> None:
    print(f"\n[{one.name}] {1000 * statement.seconds:.1f} ms")
    print(textwrap.shorten(statement.text, 200))
    print(textwrap.indent("\n".join(statement.lines), "  "))
