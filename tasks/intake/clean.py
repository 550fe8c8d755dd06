"""Cleans text so that PostgreSQL, JSON, the provider's API and a page can all hold it.

Users see what a model sees: invisible characters that could carry a message past the user who hands the document in
are removed. Invisible characters that scripts and emoji need stay where scripts and emoji use them.
"""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udfff]")
_NEWLINES = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")

# Subdivision flags (England, Scotland, Wales, …) are the only writing that is made of tag characters.
_TAG_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Joiners and direction marks: one at a time, after a character that is not ASCII, so that a run cannot spell anything.
_MARKS = "\u061c\u200c-\u200f"
_RIGHT_TO_LEFT = re.compile("[\u0590-\u060f\u0620-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc]")

_INVISIBLE = (
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # controls, except tab and newline
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufdd0-\ufdef\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    + "".join(f"{chr((plane << 16) + 0xFFFE)}{chr((plane << 16) + 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_REMOVED = re.compile(f"({_TAG_FLAG})|{_INVISIBLE}+")
_LOOSE_MARKS = re.compile(f"(?:^|(?<=[\x00-\x7f{_MARKS}]))[{_MARKS}]+")
# Next to right-to-left letters a mark may come first, or follow a full stop or a Latin word: that is its purpose.
_LOOSE_BESIDE_LETTERS = re.compile(f"(?<=[{_MARKS}])[{_MARKS}]+|(?:^|(?<=[\x00-\x7f]))[\u200c\u200d]+[{_MARKS}]*")
_ANY_MARK = re.compile(f"[{_MARKS}]")
# A sequence of variation selectors could spell a message too, so they stay only after characters that have variants.
_LOOSE_SELECTORS = re.compile(
    "(?:^|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef]))[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
    "|(?<![#*0-9\u203c-\u33ff\U0001f000-\U0001faff\xa9\xae])[\ufe0e\ufe0f]"
    f"|(?<![0\u1000-\u109f\u2200-\u2aff\u3000-\u303f\uff00-\uffef{_IDEOGRAPH}])[\ufe00-\ufe0d]"
    f"|(?<![{_IDEOGRAPH}])[\U000e0100-\U000e01ef]",
    re.MULTILINE,
)


def clean(text: str) -> str:
    """Return `text` in a form that can be stored, shown and sent.

    Joins the halves of a split character, and replaces a lone half by U+FFFD. Replaces every kind of line end by a
    newline. Removes NUL, controls, byte-order marks, zero-width, direction-override and tag characters, and
    noncharacters. Cleaning a cleaned text changes nothing.
    """
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _NEWLINES.sub("\n", text)
    text = _REMOVED.sub(lambda match: match[1] or "", text)
    text = _LOOSE_SELECTORS.sub("", text)
    return "\n".join(map(_without_loose_marks, text.split("\n"))) if _ANY_MARK.search(text) else text


def _without_loose_marks(line: str) -> str:
    return (_LOOSE_BESIDE_LETTERS if _RIGHT_TO_LEFT.search(line) else _LOOSE_MARKS).sub("", line)
