"""Tests the provider without a key: its choice of sentences, its formats, and its time for the worst document."""

from __future__ import annotations

import asyncio
import random
import sys
import time

import pytest

from tasks.ledger.errors import Category
from tasks.provider import Answer, Prompt, ProviderError, ProviderSettings, make_provider
from tasks.provider.loop import ProviderLoop

ARTICLE = """# The pier

The council met on Monday. The pier has been closed since the storm. Engineers said that the pier needs new piles.
The council decided to repair the pier. The repair of the pier will cost two million. The mayor likes music.

- The repair will begin in May.
- Boats cannot land at the pier until the repair is done.
"""


WORDS = [first + second for first in "BDFGK" for second in ("anter", "elling", "orner", "umble", "inder", "eft")]


def extract(document: str, length: str = "short", form: str = "prose") -> Answer:
    provider = make_provider(ProviderSettings("local"))
    prompt = Prompt("Summarise.", document, {"length": length, "form": form})
    return asyncio.run(provider.complete(prompt, client_request_id="call-1"))


def test_extract_is_made_of_sentences_of_the_document() -> None:
    answer = extract(ARTICLE)
    sentences = [sentence.strip() for sentence in answer.text.split(".") if sentence.strip()]
    assert len(sentences) == 3
    assert all(sentence in ARTICLE for sentence in sentences)
    assert (answer.model, answer.input_tokens, answer.output_tokens) == ("extract", None, None)


def test_bullets() -> None:
    lines = extract(ARTICLE, form="bullets").text.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("- ") and not line.startswith("- -") for line in lines)


def test_longer_means_more_sentences() -> None:
    document = " ".join(f"Sentence {word} speaks of the pier and the {word}." for word in WORDS)
    counts = [len(extract(document, length, "bullets").text.splitlines()) for length in ("short", "medium", "long")]
    assert counts == [3, 6, 12]
    assert "\n\n" in extract(document, "long", "prose").text


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("only some words without any stop", "only some words without any stop"),
        ("A title\n\nAnother line", "A title"),
        ("One. Two.", "One."),
        ("今日は雨です。明日も雨でしょう。", "今日は雨です。"),
        ("Half \ud83d and\x00 nul.", "Half \ufffd and nul."),
        ("The same. The same. The same.", "The same."),
        # Every word is in all sentences but one, so that LexRank weighs each with log(1) and divides by zero.
        ("Anton Berta. Berta Cesar. Cesar Anton.", "Anton Berta. Berta Cesar."),
        ("alpha beta. gamma delta. epsilon zeta. eta theta.", "alpha beta. gamma delta."),
    ],
)
def test_small_documents(document: str, expected: str) -> None:
    assert extract(document).text == expected


def test_giant_word_is_clipped() -> None:
    assert len(extract("x" * 5000).text) == 401


@pytest.mark.parametrize("document", ["", " \n", "...", "\x00"])
def test_nothing_to_extract(document: str) -> None:
    with pytest.raises(ProviderError) as caught:
        extract(document)
    assert (caught.value.category, caught.value.code, caught.value.sent) == (
        Category.INVALID_REQUEST,
        "nothing_to_extract",
        False,
    )


def test_same_document_gives_the_same_extract() -> None:
    document = long_document(18, 20_000)
    assert extract(document) == extract(document)


@pytest.mark.parametrize("words", [1, 2, 5, 18, 100])
def test_longest_document_takes_less_than_three_seconds(words: int) -> None:
    document = long_document(words, 200_000)
    began = time.process_time()
    assert extract(document, "long").text
    assert time.process_time() - began < 3


def test_calls_come_one_after_the_other(prompt: Prompt) -> None:
    settings = ProviderSettings("local", concurrency=200)
    assert settings.calls_at_once == 1
    loop = ProviderLoop(settings)
    loop.start()
    calls = [loop.submit(prompt, client_request_id=f"call-{i}", budget_seconds=5) for i in range(5)]
    assert len({call.result(timeout=10).text for call in calls}) == 1
    assert loop.close(timeout=5)


def test_budget_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    released = []
    monkeypatch.setattr("tasks.provider.local.make_extract", lambda *_: released.append(time.sleep(0.5)) or "text")
    loop = ProviderLoop(ProviderSettings("local"))
    loop.start()
    call = loop.submit(Prompt("", "text", {}), client_request_id="call-1", budget_seconds=0.1)
    error = call.exception(timeout=5)
    assert isinstance(error, ProviderError)
    assert (error.category, error.code, error.sent) == (Category.TIMEOUT, "call_budget", False)
    assert loop.close(timeout=5)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.provider import local

    local._sumy.cache_clear()
    monkeypatch.setitem(sys.modules, "sumy.summarizers.lex_rank", None)
    with pytest.raises(ProviderError) as caught:
        make_provider(ProviderSettings("local"))
    assert (caught.value.category, caught.value.code) == (Category.PERMISSION, "local_not_installed")


def test_label_says_what_it_is() -> None:
    provider = make_provider(ProviderSettings("local"))
    assert provider.label == "Extract made on this server, without an AI service"
    assert provider.name == "local"


def long_document(words: int, characters: int) -> str:
    """Return a text of random sentences, made of a few thousand different words and some English stop words."""
    source = random.Random(1)
    vocabulary = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(3, 9))) for _ in range(4000)]
    vocabulary += ["the", "of", "and", "to", "is"] * 400
    document = ""
    parts = []
    length = 0
    while length < characters:
        parts.append(" ".join(source.choices(vocabulary, k=words)).capitalize() + ".")
        length += len(parts[-1]) + 1
    document = " ".join(parts)
    return document[:characters]
