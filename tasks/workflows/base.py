"""What every workflow says about itself, and how it tells what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tasks.intake import clean
from tasks.provider import Prompt


@dataclass(frozen=True)
class Choice:
    """An option of a workflow: its name, what a person reads, the words allowed with their labels, and the default.

    What people read, here and below, is marked with `lazy`. The words themselves are stored, and are no language.
    """

    name: str
    label: str
    words: Mapping[str, str]
    default: str


@dataclass(frozen=True)
class Lines:
    """An option that a person types: at least one and at most `most` lines, each of at most `longest` characters."""

    name: str
    label: str
    hint: str
    most: int
    longest: int


Option = Choice | Lines
Options = Mapping[str, Any]
"""The options of a job by name: a word for a Choice, a list of lines for Lines."""


class OptionsWrong(Exception):
    """An option that the workflow does not have, or a value that the option does not allow.

    `option` is the name of one of ours, or None when the name itself is unknown.
    """

    def __init__(self, option: str | None) -> None:
        super().__init__(option or "unknown option")
        self.option = option


@dataclass(frozen=True)
class Step:
    """One request to the provider. Its answer is kept under `name`, which is the same in every attempt at the job."""

    name: str
    prompt: Prompt


@dataclass(frozen=True)
class Todo:
    """Steps that can be made now, in any order; and how many of the job's parts are done, of how many."""

    steps: Sequence[Step]
    done: int
    total: int


@dataclass(frozen=True)
class Finished:
    """The result, in Markdown, and measured facts about it that the page may show."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Workflow(Protocol):
    """A kind of work on a document. `version` is part of a job's identity: raise it whenever the outcome changes.

    `title` is what a person picks, `hint` one sentence about it. `needs_ai` False: the extract made without an AI
    service will do too.
    """

    name: str
    version: int
    title: str
    hint: str
    needs_ai: bool
    choices: Sequence[Option]

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> Todo | Finished:
        """What to do after the steps in `saved`, by name and answer. Pure: the same answers lead to the same steps.

        `call_chars` is how many characters of a document one request may hold.
        """
        ...


@runtime_checkable
class AsCsv(Protocol):
    """A workflow whose result is a table."""

    def csv(self, result: str) -> str:
        """The saved result as CSV, with cells that no spreadsheet takes for formulas."""
        ...


@runtime_checkable
class OwnWords(Protocol):
    """A workflow whose results hold words of its own. They are saved in English, whoever it was that asked."""

    def spoken(self, result: str) -> str:
        """The saved result, with these words in the language that is spoken now."""
        ...


def check_options(workflow: Workflow, given: Mapping[str, object]) -> dict[str, Any]:
    """The options of a job: what was given, where allowed, and the defaults for the rest. Raises OptionsWrong."""
    if set(given) - {option.name for option in workflow.choices}:
        raise OptionsWrong(None)
    defaults = {option.name: option.default for option in workflow.choices if isinstance(option, Choice)}
    values = {**defaults, **given}
    return {option.name: _checked(option, values.get(option.name)) for option in workflow.choices}


def _checked(option: Option, value: object) -> str | list[str]:
    if isinstance(option, Choice):
        if not isinstance(value, str) or value not in option.words:
            raise OptionsWrong(option.name)
        return value
    lines = value.splitlines() if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise OptionsWrong(option.name)
    lines = [clean(line).strip() for line in lines]
    lines = [line for line in lines if line]
    if not 1 <= len(lines) <= option.most or any(len(line) > option.longest for line in lines):
        raise OptionsWrong(option.name)
    return lines
