"""A download's name is short enough to be saved, and keeps the ending that opens it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from webapp.http.downloads import attachment_header
from webapp.http.file_names import stem_and_ending


@pytest.mark.parametrize(
    "title", ["x" * 500, "\u20ac" * 500, "\U0001f600" * 500, "\ufdfa" * 500, "e\u0301" * 500, "a.b." * 200], ids=ascii
)
def test_a_long_title_is_cut_and_its_ending_kept(title: str) -> None:
    header = attachment_header(f"{title}.docx")
    plain, _, extended = header.removeprefix('attachment; filename="').partition("\"; filename*=UTF-8''")
    assert plain.endswith(".docx") and unquote(extended).endswith(".docx")
    assert len(plain) < 140 and len(unquote(extended).encode()) <= 200 and len(header) < 1000
    header.encode("ascii")


@pytest.mark.parametrize(
    ("name", "parted"),
    [
        ("report.pdf", ("report", ".pdf")),
        ("report.tar.gz", ("report.tar", ".gz")),
        ("no ending", ("no ending", "")),
        (".hidden", (".hidden", "")),
        ("Minutes of 3.11. at noon", ("Minutes of 3.11. at noon", "")),
        (f"x.{'y' * 40}", (f"x.{'y' * 40}", "")),
        ("", ("", "")),
    ],
)
def test_what_counts_as_an_ending(name: str, parted: tuple[str, str]) -> None:
    assert stem_and_ending(name) == parted


def test_cut_as_one_piece_the_ending_would_be_lost() -> None:
    """The fault that the parting cures."""
    assert not f"{'x' * 500}.docx"[:120].endswith(".docx")
