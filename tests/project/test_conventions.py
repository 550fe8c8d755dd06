"""Rules of the house that no tool checks."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib

import pytest

from tests.support.factories import ROOT

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
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


def test_files_hold_one_idea_and_stay_readable() -> None:
    long = {path.name: lines for path in OURS if (lines := len(path.read_text().splitlines())) > 400}
    assert long == {}


@pytest.mark.parametrize("place", ["static/vendor", "tests/support/vendor"])
def test_vendored_files_are_the_ones_that_were_reviewed(place: str) -> None:
    said = (ROOT / place / "VENDOR.md").read_text()
    vendored = [path for path in (ROOT / place).iterdir() if path.suffix == ".js"]
    assert vendored
    for path in vendored:
        assert path.name in said
        assert hashlib.sha256(path.read_bytes()).hexdigest() in said
