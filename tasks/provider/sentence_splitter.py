"""Splits text into sentences and words, without the trained models that sumy's own tokenizers have to download.

Good enough to choose whole sentences in most scripts: it knows the full stops of a dozen scripts, the most common
abbreviations, and the scripts that put no space between words.
"""

from __future__ import annotations

import re

MAX_SENTENCE_CHARS = 400

_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•–‣▪]|\d{1,3}[.)]|#{1,6})\s)")
# A full stop followed by a space, or of a script that needs none; with its closing quotes and brackets.
_STOP = re.compile(r"[.!?…։؟۔।॥።។။]+[\"'”’»)\]]{0,3}(?=\s)|[。！？｡]+[」』”’）》]{0,3}")
_STOPPED = re.compile(r"[.!?…։؟۔।॥።។။。！？｡][\"'”’»)\]」』）》]{0,3}\Z")
_LEADING_MARK = re.compile(r"\A(?:[-*•–‣▪]|\d{1,3}[.)]|#{1,6}|>)\s+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[^\W\d_]|mr|mrs|ms|dr|prof|st|mme|sr|jr|vs|nr|no|ca|bzw|inkl|usw|fig|pp|vol|eds?|al|cf|approx|evtl|resp|incl|excl)"
    r"|\b\d{1,3}|\b\w\.\s?\w)\.\Z",
    re.IGNORECASE,
)
_SHORT_WORD = re.compile(r"\b[^\W\d_]{1,3}\.\Z")
# Scripts without spaces between words: Thai, kana, Han. Pairs of characters are good enough as words for comparing.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+")
_STARTS_UNSPACED = re.compile(rf"[{_UNSPACED}]")


def paragraphs(text: str) -> list[list[str]]:
    """Return the sentences of each paragraph, in order, with white space collapsed. No sentence is empty."""
    blocks = (_LEADING_MARK.sub("", " ".join(block.split()), count=1) for block in _PARAGRAPH.split(text))
    return [list(_sentences(block)) for block in blocks if block]


def is_whole(sentence: str) -> bool:
    """Return True if the text ends like a sentence; headings, table rows and page numbers do not."""
    return _STOPPED.search(sentence) is not None


def words(sentence: str) -> list[str]:
    found: list[str] = []
    for run in _WORD.findall(sentence.lower()):
        if _STARTS_UNSPACED.match(run) and len(run) > 2:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
        else:
            found.append(run)
    return found


def clip(sentence: str) -> str:
    """Return the sentence, or its beginning and an ellipsis if it is longer than MAX_SENTENCE_CHARS."""
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return sentence
    head = sentence[:MAX_SENTENCE_CHARS]
    return (head.rsplit(" ", 1)[0] if " " in head[MAX_SENTENCE_CHARS // 2 :] else head).rstrip(" ,;:") + "…"


def join(sentences: list[str]) -> str:
    """Return the sentences as running text, with spaces between them unless the script has none."""
    text = ""
    for sentence in sentences:
        text += sentence if not text or _STARTS_UNSPACED.match(sentence) else f" {sentence}"
    return text


def _sentences(block: str) -> list[str]:
    found, start = [], 0
    for stop in _STOP.finditer(block):
        if _is_inside_sentence(block, start, stop):
            continue
        found.append(block[start : stop.end()].strip())
        start = stop.end()
    found.append(block[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_inside_sentence(block: str, start: int, stop: re.Match[str]) -> bool:
    """Return True if a full stop ends no sentence: after an abbreviation or numeral, or a short word before lower case.

    A lower-case letter alone is not enough, because some people write without capitals.
    """
    if stop.group()[0] != "." or len(stop.group()) > 1:
        return False
    before = block[max(start, stop.end() - 12) : stop.end()]
    following = block[stop.end() : stop.end() + 2].strip()
    return _ABBREVIATION.search(before) is not None or (following.islower() and _SHORT_WORD.search(before) is not None)
