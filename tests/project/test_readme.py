"""Tests that the README agrees with the code."""

from __future__ import annotations

import re

from tasks.ledger.states import TERMINAL, TRANSITIONS, State
from tests.support.factories import ROOT

README = (ROOT / "README.md").read_text()


def table_after(heading: str) -> list[list[str]]:
    """Return the rows of the first table under a heading, without its header."""
    rows = [line for line in README.split(heading, 1)[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]][: len(State)]


def test_the_state_table_is_the_code() -> None:
    documented = {}
    for row in table_after("## States"):
        state, _, moves = row
        documented[state.strip("`")] = set(re.findall(r"`(\w+)` → `(\w+)`", moves))
    coded = {
        str(state): {
            (str(event), str(table[state]))
            for event, table in TRANSITIONS.items()
            if state in table and table[state] is not state
        }
        for state in State
    }
    assert documented == coded


def test_the_table_says_which_states_are_final() -> None:
    final = {row[0].strip("`") for row in table_after("## States") if "final" in row[1].lower()}
    assert final == TERMINAL


def test_both_commands_are_named_and_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
