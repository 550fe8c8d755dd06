"""The provider that needs no key: it picks sentences from the document with sumy's LexRank.

Makes an extract, not a summary in new words, and its label says so. The work is bounded for any document: LexRank
compares every sentence with every other, so a long document is ranked in blocks, and the best sentences of all blocks
once more in a last round.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tasks.ledger.errors import Category
from tasks.provider import sentence_splitter as text
from tasks.provider.base import Answer, Prompt, ProviderError, clean_text

_SENTENCES = {"short": 3, "medium": 6, "long": 12}
_PROSE_PARAGRAPH = 3

_MAX_SENTENCES = 1200
_BLOCK = 40
_LAST_ROUND = 120
_MAX_WORDS = 60

# The languages for which sumy has stop words and a stemmer without a download.
_LANGUAGES = (
    "english", "german", "french", "spanish", "italian", "portuguese", "swedish", "czech", "slovak", "polish",
    "ukrainian", "greek", "arabic", "hebrew",
)  # fmt: skip


class LocalProvider:
    """Makes extracts. The same document and options always give the same extract; uses no tokens and sends nothing."""

    name = "local"
    label = "Extract made on this server, without an AI service"

    def __init__(self) -> None:
        """Raise ProviderError(PERMISSION, "local_not_installed") if the extra with sumy and numpy is missing."""
        try:
            _sumy()
            return
        except ImportError:
            pass
        raise ProviderError(Category.PERMISSION, "local_not_installed", sent=False)

    async def complete(self, prompt: Prompt, *, client_request_id: str) -> Answer:
        """Return the extract. Raises ProviderError(INVALID_REQUEST, "nothing_to_extract") for a text without words."""
        try:
            extract = await asyncio.to_thread(make_extract, clean_text(prompt.document), prompt.options)
            failure = ProviderError(Category.INVALID_REQUEST, "nothing_to_extract", sent=False)
        except Exception:  # its message may quote the document
            extract, failure = "", ProviderError(Category.INTERNAL, "unforeseen", sent=False)
        if not extract:
            raise failure
        return Answer(extract, "extract", None, None, request_id=None, response_id=None)

    async def close(self) -> None:
        return None


def make_extract(document: str, options: Any) -> str:
    """Return the chosen sentences in document order, as paragraphs or as a list; "" if the document has no words."""
    candidates = _candidates(document)
    count = min(_SENTENCES.get(options.get("length", ""), _SENTENCES["medium"]), math.ceil(len(candidates) / 2))
    chosen = [text.clip(sentence) for sentence in _rank(candidates, count)]
    if options.get("form") == "bullets":
        return "\n".join(f"- {sentence}" for sentence in chosen)
    groups = [chosen[i : i + _PROSE_PARAGRAPH] for i in range(0, len(chosen), _PROSE_PARAGRAPH)]
    return "\n\n".join(text.join(group) for group in groups)


def _candidates(document: str) -> list[str]:
    """Return each different sentence once; fragments (headings, table rows) only if there are no whole sentences.

    Over the limit, returns evenly spaced ones, so that the end of a long document counts as much as its beginning.
    """
    pieces = [piece for block in text.paragraphs(document) for piece in block if text.words(piece)]
    whole = [piece for piece in pieces if text.is_whole(piece)]
    candidates = list(dict.fromkeys(whole or pieces))
    step = max(1.0, len(candidates) / _MAX_SENTENCES)
    return [candidates[int(i * step)] for i in range(min(len(candidates), _MAX_SENTENCES))]


def _rank(candidates: list[str], count: int) -> list[str]:
    if len(candidates) <= max(count, 2):
        return candidates[:count]
    rank = _ranking(candidates)
    if len(candidates) > _LAST_ROUND:
        blocks = [candidates[i : i + _BLOCK] for i in range(0, len(candidates), _BLOCK)]
        candidates = [sentence for block in blocks for sentence in rank(block, _LAST_ROUND // len(blocks))]
    return rank(candidates, count)


def _ranking(candidates: Sequence[str]) -> Callable[[list[str], int], list[str]]:
    """Return a function that keeps the n most central sentences, in order, with the stop words of their language."""
    sumy = _sumy()
    language = _language(candidates)
    stem = sumy.Stemmer(language) if language else sumy.null_stemmer
    summarizer = sumy.LexRank(functools.cache(stem))
    if language:
        summarizer.stop_words = _stop_words(language)

    def rank(sentences: list[str], count: int) -> list[str]:
        dom = sumy.Document([sumy.Paragraph([sumy.Sentence(each, _Words()) for each in sentences])])
        try:
            with sumy.numpy.errstate(divide="raise", invalid="raise"):
                return [str(sentence) for sentence in summarizer(dom, count)]
        except FloatingPointError:  # no two sentences share a significant word, so none is more central
            return sentences[:count]

    return rank


class _Words:
    """Implements the tokenizer interface of sumy."""

    def to_words(self, sentence: str) -> list[str]:
        return text.words(sentence[: text.MAX_SENTENCE_CHARS])[:_MAX_WORDS]


def _language(candidates: Sequence[str]) -> str | None:
    """Return the language with the most stop words in the text; None if there are too few to tell."""
    sample = [word for sentence in candidates[:200] for word in text.words(sentence[: text.MAX_SENTENCE_CHARS])]
    hits = {language: sum(word in _stop_words(language) for word in sample) for language in _LANGUAGES}
    best = max(_LANGUAGES, key=lambda language: hits[language])
    return best if hits[best] * 10 > len(sample) else None


@functools.cache
def _stop_words(language: str) -> frozenset[str]:
    found: frozenset[str] = _sumy().get_stop_words(language)
    return found


@functools.cache
def _sumy() -> Any:
    """Return the parts of sumy and numpy used here. Imports them late, since they come with an extra only."""
    from types import SimpleNamespace

    import numpy
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.nlp.stemmers import Stemmer, null_stemmer
    from sumy.summarizers.lex_rank import LexRankSummarizer
    from sumy.utils import get_stop_words

    return SimpleNamespace(
        numpy=numpy,
        Document=ObjectDocumentModel,
        Paragraph=Paragraph,
        Sentence=Sentence,
        Stemmer=Stemmer,
        null_stemmer=null_stemmer,
        LexRank=LexRankSummarizer,
        get_stop_words=get_stop_words,
    )
