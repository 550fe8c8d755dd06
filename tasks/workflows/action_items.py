"""The action items of a document (who must do what by when) as a table, and as a CSV file for a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence

from tasks.i18n import _, lazy
from tasks.provider import Prompt
from tasks.workflows.base import Finished, NextSteps, Option, Options, Step
from tasks.workflows.chunking import cut, map_parts

HEAD = ("Who", "What", "By when")
NONE = "The document gives no task to anybody."
ASK = (
    "List every task the document gives to somebody, as a Markdown table with the columns Who, What, By when, one task "
    "a row, in the order of the document and in its language. Write a dash where the document does not say. Invent "
    "nothing. Write the table only; if there is no task, write only the word NONE."
)
UNSAFE = ("=", "+", "-", "\u2212", "@", "\t", "\r", "\n")
"""Lists the characters that a spreadsheet may take for the start of a formula. U+2212 is the typographic minus sign.

Source: https://owasp.org/www-community/attacks/CSV_Injection
"""


class ActionItems:
    """Lists the tasks in minutes, letters and plans."""

    name = "action_items"
    version = 1
    step = "list"
    title = lazy("Action items")
    hint = lazy("Who must do what by when, as a table.")
    needs_ai = True
    choices: Sequence[Option] = ()

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> NextSteps | Finished:
        """Make one request per part, and one table of the rows of all answers, without duplicates."""
        parts = cut(text, call_chars)
        if len(parts) == 1 and self.step not in saved:
            return NextSteps([Step(self.step, Prompt(ASK, text))], done=0, total=1)
        answers = [saved[self.step]] if len(parts) == 1 else map_parts(parts, saved, _prompt_for_part)
        if isinstance(answers, NextSteps):
            return answers
        rows = list(dict.fromkeys(row for answer in answers for row in rows_of(answer)))
        return Finished(table_of(rows), {"items": len(rows), "parts": len(parts)})

    def localize(self, result: str) -> str:
        """Return the saved table with its column heads, or the sentence instead of it, in the active language."""
        if result == NONE:
            return _("The document gives no task to anybody.")
        head, end, rows = result.partition("\n")
        return f"{_line(_translated_head())}{end}{rows}" if head == _line(HEAD) else result

    def csv(self, result: str) -> str:
        """Return the saved table as CSV, with cells that no spreadsheet takes for formulas."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(_translated_head())
        writer.writerows([neutralize(cell) for cell in row] for row in rows_of(result))
        return file.getvalue()


def _prompt_for_part(part: str, number: int, of: int) -> Prompt:
    return Prompt(f"This is part {number} of {of} of a longer document. {ASK}", part)


def rows_of(markdown: str) -> list[tuple[str, ...]]:
    """Return the rows of the Markdown tables in a text, three cells each, without heads and delimiter rows."""
    rows = []
    for line in markdown.splitlines():
        if not line.strip().startswith("|"):
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        cells = [*cells, "", "", ""][:3]
        if tuple(cell.lower() for cell in cells) == tuple(name.lower() for name in HEAD):
            continue
        if all(re.fullmatch(r":?-{2,}:?|", cell) for cell in cells):
            continue
        rows.append(tuple(cell or "–" for cell in cells))
    return rows


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as one Markdown table, or a sentence if there are none."""
    if not rows:
        return NONE
    return "\n".join(map(_line, [HEAD, ("---", "---", "---"), *rows]))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _translated_head() -> tuple[str, ...]:
    """Return the column heads in the active language."""
    return _("Who"), _("What"), _("By when")


def neutralize(cell: str) -> str:
    """Return the cell with an apostrophe in front if a spreadsheet would take it for a formula.

    Full-width, small and raised forms of the signs count too, because spreadsheets in East Asia accept them.
    """
    return f"'{cell}" if unicodedata.normalize("NFKC", cell[:1]).startswith(UNSAFE) else cell


WORKFLOW = ActionItems()
