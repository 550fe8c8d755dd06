from __future__ import annotations

import pytest

from webapp.jobs.titles import title_of_file, title_of_text
from webapp.text.strings import cut

FAMILY = "👨‍👩‍👧‍👦"
CLUSTERS = [
    FAMILY,
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "👍🏽",
    "e\u0301\u0323",
    "❤️",
    "🇩🇪",
    "각",
    "नि",
]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=range(len(CLUSTERS)))
def test_a_cut_falls_between_characters(cluster: str) -> None:
    for limit in range(len(cluster), len(cluster) * 5):
        left = cut(cluster * 6, limit)
        assert left == cluster * (len(left) // len(cluster))
        assert limit - len(cluster) < len(left) <= limit


def test_a_character_longer_than_the_limit_is_cut_anyway() -> None:
    assert cut("a" + "\u0301" * 500, 200) == "a" + "\u0301" * 199


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("..\\..\\x.txt", "x.txt"),
        ("C:\\fakepath\\Report.pdf", "Report.pdf"),
        ("line\r\nbreak.txt", "line break.txt"),
        ("\0\0", None),
        ("", None),
        ("...", None),
        ("a/", None),
        (".hidden", ".hidden"),
        (" a  b .txt ", "a b .txt"),
    ],
    ids=range(9),
)
def test_a_file_is_called_by_the_last_part_of_its_name(name: str, title: str | None) -> None:
    assert title_of_file(name) == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n  # Minutes of the board\n\nMarch", "Minutes of the board"),
        ("one two", "one two"),
        ("---\nAfter a rule", "---"),
        ("word " * 40, "word word word word word word word word word word word…"),
        ("x" * 500, "x" * 60 + "…"),
        ("\n" * 5000 + "far down", "Untitled document"),
    ],
    ids=range(6),
)
def test_a_text_is_called_by_its_first_words(text: str, title: str) -> None:
    assert title_of_text(text) == title
