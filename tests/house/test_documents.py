"""What the documents tell people to do can be done."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tasks.__main__ import parser
from tests.support.house import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"python -m (tasks [a-z][^`\n]*?)(?=`|\n|$|  |,|;| [<>#|])")
WORDS = {"NAME", "NAMES", "ID", "CATEGORY", "…"}


def commands(page: str) -> set[str]:
    found = [command.strip() for command in COMMAND.findall(page)]
    # One that stands in quotes itself ends with them.
    return {command.partition('"')[0] if command.count('"') % 2 else command for command in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_is_named_is_there_or_made_by_the_reader(document: Path) -> None:
    page = document.read_text()
    named = set(re.findall(r"`((?:docs|tests|tasks|webapp)/[\w./-]*)`", page))
    made = set(re.findall(r"^`(\S+)`:$", page, re.MULTILINE))
    assert [name for name in sorted(named - made) if not (ROOT / name).exists()] == []
