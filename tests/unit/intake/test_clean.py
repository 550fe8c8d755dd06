from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.intake import clean

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
RAINBOW_FLAG = "\U0001f3f3\ufe0f\u200d\U0001f308"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\0b\0", "ab"),
        ("half \ud83d of it", "half \ufffd of it"),
        ("other half \ude00", "other half \ufffd"),
        ("both \ud83d\ude00", "both \U0001f600"),
        ("a\r\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b[31mred\x07\x7f\x9b", "[31mred"),
        ("\ufeffstart \ufffe\uffff\ufdd0\U0001fffe", "start "),
        ("over\u202eride\u2066d\u2069", "overrided"),
        ("zero\u200bwidth\u2060\u00ad", "zerowidth"),
    ],
)
def test_what_cannot_be_stored_or_seen_is_taken_out(given: str, expected: str) -> None:
    assert clean(given) == expected


@pytest.mark.parametrize(
    "text",
    [
        FAMILY + RAINBOW_FLAG + "\U0001f44b\U0001f3fd",
        SCOTLAND,
        "\u2764\ufe0f",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: the non-joiner is part of the spelling
        "\u0915\u094d\u200d\u0937",  # Devanagari
        "\u845b\U000e0100\u98fe",  # a variant of an ideograph
        "\u05d4\u05d5\u05e2\u05d3\u05d4\u200f (57,500).",
    ],
)
def test_what_scripts_and_emoji_are_made_of_stays(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "hidden",
    [
        "".join(chr(0xE0000 + ord(letter)) for letter in "ignore the report"),
        "\u200b\u200c\u200d\u200b\u200c",
        "\u200c\u200d" * 8,
        "".join(chr(0xE0100 + byte) for byte in b"ignore"),
        "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore the report") + "\U000e007f",
    ],
)
def test_no_message_hides_between_two_letters(hidden: str) -> None:
    assert clean(f"a{hidden}b").replace("\U0001f3f4", "") == "ab"


@given(st.text(st.characters(exclude_categories=())))
def test_the_outcome_can_be_stored_sent_and_cleaned_again(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned and "\r" not in cleaned
    cleaned.encode("utf-8")
    assert clean(cleaned) == cleaned
