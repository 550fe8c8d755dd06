"""Why a request is refused, with a sentence for the user."""

from __future__ import annotations

from collections.abc import Mapping


class NotAccepted(Exception):
    """Why nothing was recorded. `field` says which part of the form it is about, `sentence` what a person reads.

    `headers` go with the answer, `facts` to a script beside the sentence.
    """

    headers: Mapping[str, str] = {}
    facts: Mapping[str, str] = {}

    def __init__(self, code: str, sentence: str, *, field: str, status: int = 422) -> None:
        super().__init__(code)
        self.code = code
        self.sentence = str(sentence)  # in the language of whoever is refused
        self.field = field
        self.status = status

    @property
    def told(self) -> object:
        """The sentence as a page shows it."""
        return self.sentence
