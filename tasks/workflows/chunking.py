"""Cuts a long text into parts that fit into one request each, and folds the answers into one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tasks.intake.graphemes import is_border
from tasks.provider import Prompt
from tasks.workflows.base import NextSteps, Step

BORDERS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…。！？])\s+|(?<=[。！？])"),
    re.compile(r"\s+"),
)
"""Lists the positions where a text may be cut, best first: between paragraphs, lines, sentences, words."""


def cut(text: str, limit: int) -> list[str]:
    """Cut the text into parts of at most `limit` characters, at the best borders. Together the parts are the text.

    A border counts only in the second half of a part, so that no part is unnecessarily short.
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


def map_parts(
    parts: Sequence[str], saved: Mapping[str, str], prompt: Callable[[str, int, int], Prompt]
) -> NextSteps | list[str]:
    """Return the steps for the parts without an answer; all answers, in order, if there are no such parts.

    `prompt` gets a part, its number from 1, and the number of parts.
    """
    names = [f"part {number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    missing = [
        Step(name, prompt(part, number, len(parts)))
        for number, (name, part) in enumerate(zip(names, parts, strict=True), 1)
        if name not in saved
    ]
    if missing:
        return NextSteps(missing, done=len(parts) - len(missing), total=len(parts))
    return [saved[name] for name in names]


def fold(
    answers: Sequence[str], saved: Mapping[str, str], limit: int, prompt: Callable[[str], Prompt], *, total: int
) -> NextSteps | str:
    """Return the steps that fold several answers into one text; the text itself once all of them are saved.

    Works level by level if the answers do not fit into one request. Each group has at least two answers, so every level
    has fewer answers than the level before.
    """
    level = 1
    while True:
        groups = _groups(answers, limit)
        names = ["fold"] if len(groups) == 1 else [f"fold {level}.{number}" for number in range(1, len(groups) + 1)]
        missing = [Step(name, prompt(group)) for name, group in zip(names, groups, strict=True) if name not in saved]
        if missing:
            return NextSteps(missing, done=total, total=total)
        answers = [saved[name] for name in names]
        if len(answers) == 1:
            return answers[0]
        level += 1


def _groups(answers: Sequence[str], limit: int) -> list[str]:
    groups: list[list[str]] = [[]]
    for answer in answers:
        size = sum(map(len, groups[-1]))
        if len(groups[-1]) >= 2 and size + len(answer) > limit:
            groups.append([])
        groups[-1].append(answer)
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2].extend(groups.pop())
    return ["\n\n".join(group) for group in groups]
