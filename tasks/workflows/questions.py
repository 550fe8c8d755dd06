"""The answers to up to five questions about a document, each with the passage that supports it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tasks.i18n import _, lazy
from tasks.provider import Prompt
from tasks.workflows.base import Finished, Lines, NextSteps, Option, Options, Step
from tasks.workflows.chunking import cut, map_parts

ASK = (
    "Answer the questions below from the document alone. For each question write a line with its number and a full "
    "stop, then the answer in one to three sentences in the language of the question, then on a new line the passage "
    "of the document the answer rests on, copied word for word, as a Markdown quote that begins with >. "
    "If the document does not answer a question, write only NOT ANSWERED under its number.\n"
)
NUMBER = re.compile(r"^\s*(?:#+\s*)?(?:\*\*)?(\d)\s*[.):]\s*(?:\*\*)?", re.MULTILINE)
NOT_ANSWERED = "The document does not answer this."
UNSUPPORTED = "No passage of the document was found that supports this answer."


class QuestionsAnswered:
    """Answers questions so that the user can check every answer."""

    name = "questions_answered"
    version = 1
    step = "answer"
    title = lazy("Answers to questions")
    hint = lazy("Up to five questions, each answered with the passage that supports it.")
    needs_ai = True
    choices: Sequence[Option] = (
        Lines("questions", lazy("Questions"), lazy("One per line, up to five."), max_lines=5, max_length=300),
    )

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> NextSteps | Finished:
        """Make one request per part, with all questions; then pick the first answer with a passage from the text."""
        questions: list[str] = options["questions"]
        parts = cut(text, call_chars)
        if len(parts) == 1 and self.step not in saved:
            return NextSteps([Step(self.step, Prompt(_instructions(questions), text))], done=0, total=1)
        if len(parts) == 1:
            answers: NextSteps | list[str] = [saved[self.step]]
        else:
            answers = map_parts(parts, saved, lambda part, number, of: Prompt(_instructions(questions), part))
        if isinstance(answers, NextSteps):
            return answers
        given = [_parse_answers(answer) for answer in answers]
        best = [_best([part.get(number, ("", "")) for part in given], text) for number in range(1, len(questions) + 1)]
        shown = [show(question, answer, passage) for question, (answer, passage) in zip(questions, best, strict=True)]
        supported = sum(bool(passage) for _, passage in best)
        return Finished("\n\n".join(shown), {"questions": len(questions), "supported": supported})

    def localize(self, result: str) -> str:
        """Return the saved answers with the remarks on missing answers and passages in the active language."""
        unsupported = _("No passage of the document was found that supports this answer.")
        words = {NOT_ANSWERED: _("The document does not answer this."), f"*{UNSUPPORTED}*": f"*{unsupported}*"}
        return "\n\n".join(words.get(block, block) for block in result.split("\n\n"))


def _instructions(questions: Sequence[str]) -> str:
    """Return the instructions with the questions."""
    return ASK + "\n".join(f"{number}. {question}" for number, question in enumerate(questions, 1))


def _parse_answers(text: str) -> dict[int, tuple[str, str]]:
    """Return each answer and its passage by the number of the question, without those that the provider left out."""
    found: dict[int, tuple[str, str]] = {}
    marks = list(NUMBER.finditer(text))
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        body = text[mark.end() : None if after is None else after.start()].strip()
        quoted = [line.strip().lstrip("> ").strip() for line in body.splitlines() if line.strip().startswith(">")]
        plain = " ".join(line.strip() for line in body.splitlines() if not line.strip().startswith(">")).strip()
        if plain and "NOT ANSWERED" not in plain.upper():
            found.setdefault(int(mark.group(1)), (plain, " ".join(quoted)))
    return found


def _is_in_document(passage: str, document: str) -> bool:
    """Return True if the document has the passage word for word, ignoring white space and quotation marks around it."""
    expected = " ".join(passage.strip("\"'“”„«» ").split())
    return len(expected) >= 3 and expected in " ".join(document.split())


def _best(given: Sequence[tuple[str, str]], document: str) -> tuple[str, str]:
    """Return the first answer with a passage from the document; else the first answer at all, without a passage."""
    for answer, passage in given:
        if answer and _is_in_document(passage, document):
            return answer, passage
    return next(((answer, "") for answer, _ in given if answer), ("", ""))


def show(question: str, answer: str, passage: str) -> str:
    """Return one question as Markdown, with its answer, and its passage or the remark that there is none."""
    heading = f"**{re.sub(r'[*_`<>]', '', question)}**"
    if not answer:
        return f"{heading}\n\n{NOT_ANSWERED}"
    return f"{heading}\n\n{answer}\n\n" + (f"> {passage}" if passage else f"*{UNSUPPORTED}*")


WORKFLOW = QuestionsAnswered()
