from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.workflows.base import Finished, NextSteps
from tasks.workflows.chunking import cut, fold
from tasks.workflows.summary import Summary

OPTIONS = {"length": "short", "form": "prose"}


@given(st.text(max_size=400), st.integers(min_value=4, max_value=120))
def test_the_parts_of_a_text_are_the_text_and_none_is_too_long(text: str, limit: int) -> None:
    parts = cut(text, limit)
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)
    assert all(parts) or text == ""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.\n\nThree is longer than the others.", "One. Two.\n\n"),
        ("One two three.\nFour five six seven eight.", "One two three.\n"),
        ("One two three. Four five six seven eight.", "One two three. "),
        ("one two three four five six seven eight nine", "one two three four "),
        ("あいうえおかきくけこ。さしすせそたちつてとなにぬねの", "あいうえおかきくけこ。"),
    ],
)
def test_a_text_is_cut_at_the_best_border_there_is(text: str, first: str) -> None:
    assert cut(text, 20)[0] == first


@pytest.mark.parametrize("sign", ["👨\u200d👩\u200d👧", "🇩🇪", "1\ufe0f\u20e3", "👋🏽", "नि", "e\u0301\u0323"])
def test_a_cut_never_falls_into_a_sign_made_of_several_characters(sign: str) -> None:
    for shift in range(6):
        for part in cut("x" * shift + sign * 24, 11):
            assert part.lstrip("x") == sign * (len(part.lstrip("x")) // len(sign))
            assert not part.endswith("\u200d")


def test_a_long_text_is_made_in_parts_and_folded_and_every_answer_is_asked_for_once() -> None:
    text = "\n\n".join(f"Paragraph {n} says something about number {n}." for n in range(40))
    saved: dict[str, str] = {}
    asked: list[str] = []
    progress: list[tuple[int, int]] = []
    while isinstance(todo := Summary().next(text, OPTIONS, saved, 100), NextSteps):
        progress.append((todo.done, todo.total))
        step = todo.steps[-1]  # in any order
        asked.append(step.name)
        saved[step.name] = f"Answer to {step.name}."
    assert isinstance(todo, Finished)
    assert todo.text == "Answer to fold."
    assert len(asked) == len(set(asked))
    assert progress == sorted(progress)


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=40), st.integers(min_value=1, max_value=200))
def test_folding_always_comes_to_an_end(answers: list[str], limit: int) -> None:
    from tasks.provider import Prompt

    saved: dict[str, str] = {}
    for _ in range(200):
        folded = fold(answers, saved, limit, lambda group: Prompt("", group), total=len(answers))
        if isinstance(folded, str):
            return
        for step in folded.steps:
            saved[step.name] = step.prompt.document[: limit + 10]
    raise AssertionError("it goes on for ever")
