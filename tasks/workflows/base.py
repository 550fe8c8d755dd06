"""What every workflow says about itself, and how it tells what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks.provider import Prompt


@dataclass(frozen=True)
class Choice:
    """An option of a workflow: its name, what a person reads, the words allowed with their labels, and the default."""

    name: str
    label: str
    words: Mapping[str, str]
    default: str


class OptionsWrong(Exception):
    """An option that the workflow does not have, or a word that the option does not allow.

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
    """A kind of work on a document. `version` is part of a job's identity: raise it whenever the outcome changes."""

    name: str
    version: int
    title: str
    choices: Sequence[Choice]

    def next(self, text: str, options: Mapping[str, str], saved: Mapping[str, str], call_chars: int) -> Todo | Finished:
        """What to do after the steps in `saved`, by name and answer. Pure: the same answers lead to the same steps.

        `call_chars` is how many characters of a document one request may hold.
        """
        ...


def check_options(workflow: Workflow, given: Mapping[str, object]) -> dict[str, str]:
    """The options of a job: what was given, where allowed, and the defaults for the rest. Raises OptionsWrong."""
    names = {choice.name for choice in workflow.choices}
    if set(given) - names:
        raise OptionsWrong(None)
    options = {}
    for choice in workflow.choices:
        word = given.get(choice.name, choice.default)
        if not isinstance(word, str) or word not in choice.words:
            raise OptionsWrong(choice.name)
        options[choice.name] = word
    return options
