"""Tests that all pictures of the pages exist, that none is unused, and that they stay small."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from PIL import Image

from tests.screenshots.__main__ import main
from tests.screenshots.camera import LARGEST_BYTES, LARGEST_SUM, pictures
from tests.support.factories import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"""<(?:img|source) [^>]*src(?:set)?="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)""")


def named(page: Path) -> set[Path]:
    """Return the pictures that a page shows."""
    return {(page.parent / (attribute or link)).resolve() for attribute, link in NAMED.findall(page.read_text())}


def kept() -> set[Path]:
    return set((ROOT / "docs" / "img").iterdir())


def test_every_picture_that_is_shown_is_there_and_every_one_that_is_there_is_shown() -> None:
    assert set().union(*map(named, PAGES)) == kept()


def test_they_are_the_ones_that_are_taken() -> None:
    words = ("result", "running", "retrying", "actions", "failed")
    taken = pictures(dict.fromkeys(words, uuid.uuid4()), uuid.uuid4())
    assert {f"{picture.name}.png" for picture in taken} == {path.name for path in kept()}
    for picture in taken:
        with Image.open(ROOT / "docs" / "img" / f"{picture.name}.png") as image:
            assert image.width == picture.width * picture.scale, picture.name


def test_they_stay_small() -> None:
    sizes = {path.name: path.stat().st_size for path in kept()}
    assert {name for name, size in sizes.items() if size > LARGEST_BYTES} == set()
    assert sum(sizes.values()) <= LARGEST_SUM


def test_each_says_in_words_what_it_shows() -> None:
    for page in PAGES:
        for picture in re.findall(r"<img [^>]*>", page.read_text()):
            assert re.search(r'alt="[^"]{20,}"', picture), (page.name, picture)


def test_the_command_that_takes_them_is_one_that_there_is() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^screenshots:.*## ", makefile, re.MULTILINE)
    assert "python -m tests.screenshots" in makefile
    assert "`make screenshots`" in (ROOT / "docs" / "pictures.md").read_text()


def test_where_there_is_no_browser_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main([]) == 2
    assert "There is no Chromium on this machine" in capsys.readouterr().out


def test_they_are_in_no_image_of_the_app() -> None:
    assert "!docs" not in (ROOT / ".dockerignore").read_text().splitlines()
