"""Tests that `make check` runs the tests that need no service and starts none, and `make test` runs the given tests."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import no_services
from tests.support.factories import ROOT
from tests.support.makefile import SURROUNDINGS, commands_of, targets
from tests.support.side_by_side import run

MADE_UP = """
import subprocess
from pathlib import Path
import pytest
from webapp.local.services import services, temporary_directory

@pytest.fixture
def addresses():
    return {}

@pytest.fixture
def database(addresses):
    return None

def test_that_needs_nothing(): pass
def test_that_asks(addresses): pass
def test_whose_fixture_asks(database): pass
@pytest.mark.browser
def test_in_a_browser(): pass

def test_that_starts_postgresql_by_itself():
    with temporary_directory() as directory, services(Path(directory)):
        pass

def test_that_starts_redis_by_itself(tmp_path):
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    subprocess.run([program], check=True)
"""


def selection() -> list[str]:
    """Return the arguments that `make check` gives to pytest."""
    (arguments,) = re.findall(r"-m pytest ([^']*)'", "\n".join(commands_of("check")))
    return shlex.split(arguments)


def pytest_with(*arguments: str) -> str:
    """Run pytest in the project and return its output."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT, env=SURROUNDINGS, capture_output=True, text=True, timeout=170, check=False,
    ).stdout  # fmt: skip


@pytest.mark.thorough
def test_the_selection_is_most_of_both_folders() -> None:
    output = pytest_with(*selection(), "--collect-only")
    found = re.search(r"^(\d+)/\d+ tests collected \((\d+) deselected\) in", output, re.MULTILINE)
    assert found, output
    assert int(found[1]) > 1000
    assert int(found[2]) > 20


def test_the_selection_is_all_of_both_folders_without_the_services() -> None:
    assert selection() == ["-q", "-p", "tests.support.no_services", "tests/unit", "tests/project"]


def try_made_up(directory: Path, *options: str) -> str:
    """Run the generated tests and return pytest's output."""
    (directory / "test_made_up.py").write_text(MADE_UP)
    return pytest_with(*options, "-q", "-W", "ignore", "-o", "addopts=", str(directory / "test_made_up.py"))


@pytest.mark.thorough
def test_what_asks_for_services_is_left_out_and_what_starts_one_by_itself_fails(tmp_path: Path) -> None:
    output = try_made_up(tmp_path, "-p", "tests.support.no_services")
    assert "2 failed, 1 passed, 3 deselected in" in output
    assert "ServiceStarted: postgres" in output or "ServiceStarted: initdb" in output
    assert "ServiceStarted: redis-server" in output


@pytest.mark.thorough
@pytest.mark.usefixtures("addresses")  # it starts a service
def test_negative_control_without_the_plugin_all_of_them_run(tmp_path: Path) -> None:
    assert "6 passed in" in try_made_up(tmp_path)


def test_the_addresses_of_the_shell_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "addaudithook", lambda hook: None)  # an audit hook cannot be removed from the process
    for name in no_services.ADDRESSES:
        monkeypatch.setenv(name, "somewhere")
    no_services.pytest_configure()
    assert not set(no_services.ADDRESSES) & set(os.environ)


def test_check_runs_every_command_of_lint_and_says_how_each_ended() -> None:
    assert all(name in (ROOT / "Makefile").read_text() for name in ("$$LINT", "export LINT"))
    fine, wrong, missing = run("echo one"), run("sh -c 'echo why; exit 3'"), run("no-such-program-here")
    assert re.fullmatch(r"ok +\d+\.\d s  echo one  one", fine.report)
    assert wrong.report.startswith("why\n")
    assert re.search(r"^failed +\d+\.\d s  sh -c", wrong.report, re.MULTILINE)
    assert (fine.code, wrong.code, missing.code) == (0, 3, 127)


def test_make_test_passes_its_arguments_on_and_without_them_is_lint_and_everything() -> None:
    *lint, everything = commands_of("test")
    assert lint == commands_of("lint")
    assert everything.endswith("--dist worksteal -m 'not thorough'")
    assert commands_of("thorough")[-1].endswith("--dist worksteal -m thorough")
    assert "\ntested test\ntested thorough\n" in (ROOT / ".ci" / "run").read_text()
    (some,) = commands_of("test", "ARGS=tests/web -k 'links or forms'")
    assert some.endswith("--dist worksteal tests/web -k 'links or forms'")


def test_help_lists_what_a_contributor_needs() -> None:
    assert {"demo", "check", "test", "lint", "drills", "chaos"} <= targets()
