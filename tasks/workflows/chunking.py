"""Cutting a long text into parts that fit into one request, and folding the answers together again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tasks.intake.graphemes import is_border
from tasks.provider import Prompt
from tasks.workflows.base import Step, Todo

BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…。！？])\s+|(?<=[。！？])"),
    re.compile(r"\s+"),
)
"""Where a text may be cut, best first: between paragraphs, lines, sentences, words."""


def cut(text: str, limit: int) -> list[str]:
    """The text in parts of at most `limit` characters that together are the text, cut at the best border there is.

    A border counts only in the second half of a part, so that no part is needlessly short.
    """
    parts = []
    while len(text) > limit:
        end = _border(text, limit)
        parts.append(text[:end])
        text = text[end:]
    return [*parts, text]


def _border(text: str, limit: int) -> int:
    for border in BORDERS:
        ends = [found.end() for found in border.finditer(text, limit // 2, limit) if found.end() <= limit]
        if ends:
            return ends[-1]
    return next((end for end in range(limit, limit // 2, -1) if is_border(text, end)), limit)


def over_parts(
    parts: Sequence[str], saved: Mapping[str, str], prompt: Callable[[str, int, int], Prompt]
) -> Todo | list[str]:
    """The steps for the parts that have no answer yet, or all answers, in order.

    `prompt` is given a part, its number from 1, and how many there are.
    """
    names = [f"part {number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    missing = [
        Step(name, prompt(part, number, len(parts)))
        for number, (name, part) in enumerate(zip(names, parts, strict=True), 1)
        if name not in saved
    ]
    if missing:
        return Todo(missing, done=len(parts) - len(missing), total=len(parts))
    return [saved[name] for name in names]


def fold(
    answers: Sequence[str], saved: Mapping[str, str], limit: int, prompt: Callable[[str], Prompt], *, total: int
) -> Todo | str:
    """The steps that make one text of several answers, level by level where they do not fit into one request.

    Each group holds at least two, so every level is shorter than the one before. Or the one text.
    """
    level = 1
    while True:
        groups = _groups(answers, limit)
        names = ["fold"] if len(groups) == 1 else [f"fold {level}.{number}" for number in range(1, len(groups) + 1)]
        missing = [Step(name, prompt(group)) for name, group in zip(names, groups, strict=True) if name not in saved]
        if missing:
            return Todo(missing, done=total, total=total)
        answers = [saved[name] for name in names]
        if len(answers) == 1:
            return answers[0]
        level += 1


def _groups(answers: Sequence[str], limit: int) -> list[str]:
    groups: list[list[str]] = [[]]
    for answer in answers:
        size = sum(len(one) for one in groups[-1])
        if len(groups[-1]) >= 2 and size + len(answer) > limit:
            groups.append([])
        groups[-1].append(answer)
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2].extend(groups.pop())
    return ["\n\n".join(group) for group in groups]
