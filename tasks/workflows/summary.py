"""A summary of a document, in the length and form its owner wants, in the document's own language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.provider import Prompt
from tasks.workflows.base import Choice

LENGTHS = {"short": "at most 60 words", "medium": "about 150 words", "long": "about 400 words"}
FORMS = {
    "prose": "Write plain paragraphs, without headings or lists.",
    "bullets": "Write a Markdown list with one point a line, most important first.",
}


class Summary:
    """The workflow everybody gets."""

    name = "summary"
    version = 1
    choices: Sequence[Choice] = (
        Choice("length", "Length", {"short": "Short", "medium": "Medium", "long": "Long"}, "medium"),
        Choice("form", "Form", {"prose": "Prose", "bullets": "Bullets"}, "prose"),
    )

    def prompt(self, text: str, options: Mapping[str, str]) -> Prompt:
        """One request for the whole text."""
        instructions = (
            f"Summarise the document in {LENGTHS[options['length']]}, in the language of the document. "
            f"{FORMS[options['form']]} State only what the document says. Keep names, numbers and dates exact. "
            "Do not add links, images, or remarks about the document or about yourself."
        )
        return Prompt(instructions=instructions, document=text, options=dict(options))
