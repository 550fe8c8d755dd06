"""The summary of a document, in the length, form and language that the user chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.i18n import lazy
from tasks.provider import Prompt
from tasks.workflows.base import Choice, Finished, NextSteps, Option, Options, Step
from tasks.workflows.chunking import cut, fold, map_parts

LENGTHS = {"short": "at most 60 words", "medium": "about 150 words", "long": "about 400 words"}
FORMS = {
    "prose": "Write plain paragraphs, without headings or lists.",
    "bullets": "Write a Markdown list with one point a line, most important first.",
}
LANGUAGES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish"}
"""Names the languages for the model; the labels for the user are below."""
RULES = (
    "State only what the document says. Keep names, numbers and dates exact. "
    "Do not add links, images, or remarks about the document or about yourself."
)


class Summary:
    """Summarises a document. This is the default workflow."""

    name = "summary"
    version = 1
    step = "summarise"
    title = lazy("Summary")
    hint = lazy("The document in fewer words.")
    needs_ai = False
    choices: Sequence[Option] = (
        Choice(
            "length",
            lazy("Length"),
            {"short": lazy("Short"), "medium": lazy("Medium"), "long": lazy("Long")},
            "medium",
        ),
        Choice("form", lazy("Form"), {"prose": lazy("Prose"), "bullets": lazy("Bullets")}, "prose"),
        Choice(
            "language",
            lazy("Language"),
            {
                "document": lazy("Same as document"),
                "en": lazy("English"),
                "de": lazy("German"),
                "fr": lazy("French"),
                "es": lazy("Spanish"),
            },
            "document",
        ),
    )

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> NextSteps | Finished:
        """Make one request if the text fits; else one per part, and then fold their answers into one."""
        parts = cut(text, call_chars)
        if len(parts) == 1:
            if self.step in saved:
                return Finished(saved[self.step])
            return NextSteps([Step(self.step, self._prompt_for_whole(text, options))], done=0, total=1)
        answers = map_parts(parts, saved, lambda part, number, of: self._prompt_for_part(part, number, of, options))
        if isinstance(answers, NextSteps):
            return answers
        folded = fold(answers, saved, call_chars, lambda group: self._prompt_for_fold(group, options), total=len(parts))
        return folded if isinstance(folded, NextSteps) else Finished(folded, {"parts": len(parts)})

    def _prompt_for_whole(self, text: str, options: Options) -> Prompt:
        task = f"Summarise the document in {LENGTHS[options['length']]}, {_in_language(options)}."
        return Prompt(f"{task} {FORMS[options['form']]} {RULES}", text, dict(options))

    def _prompt_for_part(self, part: str, number: int, of: int, options: Options) -> Prompt:
        task = (
            f"This is part {number} of {of} of a longer document. Summarise this part in about 150 words, "
            f"{_in_language(options)}, so that a summary of the whole can be made of the parts' summaries."
        )
        return Prompt(f"{task} {RULES}", part, {**options, "length": "medium", "form": "prose"})

    def _prompt_for_fold(self, group: str, options: Options) -> Prompt:
        task = (
            "The document below holds summaries of the consecutive parts of one longer document. "
            f"Make one summary of them all, in {LENGTHS[options['length']]}, {_in_language(options)}."
        )
        return Prompt(f"{task} {FORMS[options['form']]} {RULES}", group, dict(options))


def _in_language(options: Options) -> str:
    language = options.get("language", "document")
    return "in the language of the document" if language == "document" else f"in {LANGUAGES[language]}"


WORKFLOW = Summary()
