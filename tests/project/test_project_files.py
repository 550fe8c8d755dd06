"""Tests that the root files for tools and contributors agree with the project."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.support.factories import ROOT
from tests.support.makefile import commands_of, targets

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_hooks_before_a_commit_are_the_commands_of_make_lint() -> None:
    (source,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert source["repo"] == "local"  # any other would bring its own versions
    assert [hook["entry"] for hook in source["hooks"]] == commands_of("lint")
    for hook in source["hooks"]:
        assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("system", False, True)


def test_the_licence_is_named_alike_everywhere() -> None:
    (file,) = PROJECT["license-files"]
    assert PROJECT["license"] == "MIT"
    assert (ROOT / file).read_text().startswith("MIT License\n\nCopyright 2026 the Waybill authors\n")
    assert f"[MIT licence]({file})" in (ROOT / "README.md").read_text()


def test_the_newest_version_in_the_changelog_is_the_projects() -> None:
    found = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found[0] == PROJECT["version"]


def test_every_command_for_contributors_is_one_that_make_knows() -> None:
    mentioned = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"check", "test", "help", "words", "drills", "chaos"} <= mentioned <= targets()
