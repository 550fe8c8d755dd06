"""The provider that needs no key: it picks sentences out of the document with sumy's LexRank.

An extract, not a summary in its own words, and its label says so. Bounded whatever the document: LexRank compares every
sentence with every other, so a long document is read in blocks, and the best of each meet in a last round.
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

# Those for which sumy has stop words and a stemmer that needs nothing downloaded.
_LANGUAGES = (
    "english", "german", "french", "spanish", "italian", "portuguese", "swedish", "czech", "slovak", "polish",
    "ukrainian", "greek", "arabic", "hebrew",
)  # fmt: skip


class LocalProvider:
    """The same document and options always give the same extract; it costs no tokens and sends nothing anywhere."""

    name = "local"
    label = "Extract made on this server, without an AI service"

    def __init__(self) -> None:
        """Raises ProviderError(PERMISSION, "local_not_installed") without the extra that brings sumy and numpy."""
        try:
            _sumy()
            return
        except ImportError:
            pass
        raise ProviderError(Category.PERMISSION, "local_not_installed", sent=False)

    async def complete(self, prompt: Prompt, *, client_request_id: str) -> Answer:
        """Raises ProviderError(INVALID_REQUEST, "nothing_to_extract") for a document without a single word."""
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
    """The chosen sentences in the document's order, as paragraphs or as a list; "" when there is no word in it."""
    candidates = _candidates(document)
    wanted = min(_SENTENCES.get(options.get("length", ""), _SENTENCES["medium"]), math.ceil(len(candidates) / 2))
    chosen = [text.clip(sentence) for sentence in _rank(candidates, wanted)]
    if options.get("form") == "bullets":
        return "\n".join(f"- {sentence}" for sentence in chosen)
    groups = [chosen[i : i + _PROSE_PARAGRAPH] for i in range(0, len(chosen), _PROSE_PARAGRAPH)]
    return "\n\n".join(text.join(group) for group in groups)


def _candidates(document: str) -> list[str]:
    """Each different sentence once; pieces that are no sentence (headings, table rows) only if there is nothing else.

    Beyond the limit, evenly spaced ones: the end of a long document counts as much as its beginning.
    """
    pieces = [piece for block in text.paragraphs(document) for piece in block if text.words(piece)]
    whole = [piece for piece in pieces if text.is_whole(piece)]
    candidates = list(dict.fromkeys(whole or pieces))
    step = max(1.0, len(candidates) / _MAX_SENTENCES)
    return [candidates[int(i * step)] for i in range(min(len(candidates), _MAX_SENTENCES))]


def _rank(candidates: list[str], wanted: int) -> list[str]:
    if len(candidates) <= max(wanted, 2):
        return candidates[:wanted]
    rank = _ranking(candidates)
    if len(candidates) > _LAST_ROUND:
        blocks = [candidates[i : i + _BLOCK] for i in range(0, len(candidates), _BLOCK)]
        candidates = [sentence for block in blocks for sentence in rank(block, _LAST_ROUND // len(blocks))]
    return rank(candidates, wanted)


def _ranking(candidates: Sequence[str]) -> Callable[[list[str], int], list[str]]:
    """A function that keeps the n most central of some sentences, in order, with the stop words of their language."""
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
        except FloatingPointError:  # no two of them share a word that tells anything: none is more central
            return sentences[:count]

    return rank


class _Words:
    """What sumy asks of a tokenizer."""

    def to_words(self, sentence: str) -> list[str]:
        return text.words(sentence[: text.MAX_SENTENCE_CHARS])[:_MAX_WORDS]


def _language(candidates: Sequence[str]) -> str | None:
    """The language whose stop words are met most; None where too few are met to tell."""
    sample = [word for sentence in candidates[:200] for word in text.words(sentence[: text.MAX_SENTENCE_CHARS])]
    met = {language: sum(word in _stop_words(language) for word in sample) for language in _LANGUAGES}
    best = max(_LANGUAGES, key=lambda language: met[language])
    return best if met[best] * 10 > len(sample) else None


@functools.cache
def _stop_words(language: str) -> frozenset[str]:
    found: frozenset[str] = _sumy().get_stop_words(language)
    return found


@functools.cache
def _sumy() -> Any:
    """The parts of sumy and numpy used here, imported late: they come with an extra only."""
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
