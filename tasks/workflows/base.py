"""What every workflow says about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Workflow(Protocol):
    """A kind of work on a document. `version` is part of a job's identity: raise it whenever the outcome changes."""

    name: str
    version: int
    choices: Sequence[Choice]

    def prompt(self, text: str, options: Mapping[str, str]) -> Prompt:
        """The one request that does the work."""
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
