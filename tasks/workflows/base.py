"""The interface of all workflows: their names and options, and the steps to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tasks.intake import clean
from tasks.provider import Prompt


@dataclass(frozen=True)
class Choice:
    """Represents an option with fixed values: its name and label, the allowed words with their labels, the default.

    Texts for the user, here and below, are marked with `lazy`. The words are stored, and are not translated.
    """

    name: str
    label: str
    words: Mapping[str, str]
    default: str


@dataclass(frozen=True)
class Lines:
    """Represents an option that the user types: 1 to `most` lines, each of at most `longest` characters."""

    name: str
    label: str
    hint: str
    max_lines: int
    max_length: int


Option = Choice | Lines
Options = Mapping[str, Any]
"""Maps the options of a job by name: a word for a Choice, a list of lines for Lines."""


class InvalidOptions(Exception):
    """Raised for an option that the workflow does not have, or a value that the option does not allow.

    `option` is the name of the option, or None if the workflow has no option of that name.
    """

    def __init__(self, option: str | None) -> None:
        super().__init__(option or "unknown option")
        self.option = option


@dataclass(frozen=True)
class Step:
    """Represents one request to the provider. Its answer is saved under `name`, which is the same in every attempt."""

    name: str
    prompt: Prompt


@dataclass(frozen=True)
class NextSteps:
    """Lists the steps that can run now, in any order, and counts the parts of the job: done, and in total."""

    steps: Sequence[Step]
    done: int
    total: int


@dataclass(frozen=True)
class Finished:
    """Holds the result, in Markdown, and measured facts about it that the page may show."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Workflow(Protocol):
    """Defines a kind of work on a document. `version` is part of a job's identity: raise it when the result changes.

    `step` names the work on the document, and the answer if one request is enough. It is stored with that answer, so it
    must not change. `title` is the name that the user picks, `hint` a sentence about it. `needs_ai` False means that
    the extract made without an AI service is good enough.
    """

    name: str
    version: int
    step: str
    title: str
    hint: str
    needs_ai: bool
    choices: Sequence[Option]

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> NextSteps | Finished:
        """Return the steps to do next, or the result. Pure: the same answers lead to the same steps.

        `saved` has the answers so far by the name of their step. `call_chars` is the number of characters of a document
        that one request may hold.
        """
        ...


@runtime_checkable
class AsCsv(Protocol):
    """Marks a workflow whose result is a table."""

    def csv(self, result: str) -> str:
        """Return the saved result as CSV, with cells that no spreadsheet takes for formulas."""
        ...


@runtime_checkable
class OwnTexts(Protocol):
    """Marks a workflow that adds its own text to results. It is saved in English, whatever the user's language."""

    def localize(self, result: str) -> str:
        """Return the saved result with this text in the active language."""
        ...


def check_options(workflow: Workflow, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a job: the given values, checked, and the defaults for the rest. Raises InvalidOptions."""
    if set(given) - {option.name for option in workflow.choices}:
        raise InvalidOptions(None)
    defaults = {option.name: option.default for option in workflow.choices if isinstance(option, Choice)}
    values = {**defaults, **given}
    return {option.name: _checked(option, values.get(option.name)) for option in workflow.choices}


def _checked(option: Option, value: object) -> str | list[str]:
    if isinstance(option, Choice):
        if not isinstance(value, str) or value not in option.words:
            raise InvalidOptions(option.name)
        return value
    lines = value.splitlines() if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InvalidOptions(option.name)
    lines = [clean(line).strip() for line in lines]
    lines = [line for line in lines if line]
    if not 1 <= len(lines) <= option.max_lines or any(len(line) > option.max_length for line in lines):
        raise InvalidOptions(option.name)
    return lines
