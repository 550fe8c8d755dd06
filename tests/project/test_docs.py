"""Tests that the commands and links in the documents work."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tasks.__main__ import parser
from tests.support.factories import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
COMMAND = re.compile(r"python -m (tasks [a-z][^`\n]*?)(?=`|\n|$|  |,|;| [<>#|])")
WORDS = {"NAME", "NAMES", "ID", "CATEGORY", "…"}


def commands(page: str) -> set[str]:
    found = [command.strip() for command in COMMAND.findall(page)]
    # A command inside quotes ends at the closing quote.
    return {command.partition('"')[0] if command.count('"') % 2 else command for command in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_is_one_that_there_is(document: Path) -> None:
    for command in commands(document.read_text()):
        words = ["x" if word in WORDS else word for word in shlex.split(command)[1:]]
        try:
            parser().parse_args(words)
        except SystemExit as wrong:
            assert wrong.code == 0, command


def test_a_command_that_there_is_not_is_noticed() -> None:
    assert commands("Run `python -m tasks jobs lsit`, then\npython -m tasks ops status   how it stands") == {
        "tasks jobs lsit",
        "tasks ops status",
    }
    with pytest.raises(SystemExit):
        parser().parse_args(["jobs", "lsit"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_is_named_is_there_or_made_by_the_reader(document: Path) -> None:
    page = document.read_text()
    named = set(re.findall(r"`((?:docs|static|templates|tests|tasks|webapp)/[\w./-]*)`", page))
    made = set(re.findall(r"^`(\S+)`:$", page, re.MULTILINE))
    assert [name for name in sorted(named - made) if not (ROOT / name).exists()] == []


def anchors(page: str) -> set[str]:
    """Return the names that a repository's host gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(document: Path, page: str) -> list[str]:
    """Return the links of a page that lead to no file of the project, or to no heading in it."""
    dead = []
    for link in LINK.findall(page):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if "://" in link:
            continue
        if (
            not target.is_relative_to(ROOT)
            or not target.exists()
            or (anchor and anchor not in anchors(target.read_text()))
        ):
            dead.append(link)
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    assert dead_links(document, document.read_text()) == []


@pytest.mark.parametrize("link", ["no-such-page.md", "settings.md#no-such-heading", "#nor-this", "../../outside.md"])
def test_a_link_that_leads_nowhere_is_noticed(link: str) -> None:
    assert dead_links(INDEX, f"See [this page]({link}).") == [link]


def test_links_to_headings_and_to_other_sites_are_no_dead_ones() -> None:
    page = "[a](deploy.md#host-by-host), [b](../README.md), [c](#for-site-owners), [d](https://www.example.org/x.md)"
    assert dead_links(INDEX, page) == []


def test_the_index_has_every_page_once_with_a_line_about_it() -> None:
    listed = re.findall(r"^\* \[[^\]]+\]\(([\w-]+\.md)\): \S.*\.", INDEX.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in INDEX.parent.glob("*.md") if path != INDEX)


def test_the_page_about_the_architecture_names_every_package_and_every_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.parent for part in ("tasks", "webapp") for path in (ROOT / part).rglob("__init__.py")}
    packages.add(ROOT / "webapp" / "migrations")
    assert [str(path) for path in packages if f"`{path.relative_to(ROOT)}/`" not in page] == []
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) == len(re.findall(r"^\* ", page, re.MULTILINE))
    assert [contract["name"] for contract in contracts if f"* {contract['name']}" not in page] == []
