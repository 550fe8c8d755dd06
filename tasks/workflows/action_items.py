"""Who must do what by when, as a table, and as a CSV file for a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence

from tasks.i18n import _, lazy
from tasks.provider import Prompt
from tasks.workflows.base import Finished, Option, Options, Step, Todo
from tasks.workflows.chunking import cut, over_parts

HEAD = ("Who", "What", "By when")
NONE = "The document gives no task to anybody."
ASK = (
    "List every task the document gives to somebody, as a Markdown table with the columns Who, What, By when, one task "
    "a row, in the order of the document and in its language. Write a dash where the document does not say. Invent "
    "nothing. Write the table only; if there is no task, write only the word NONE."
)
UNSAFE = ("=", "+", "-", "\u2212", "@", "\t", "\r", "\n")
"""What a spreadsheet may take for the beginning of a formula: https://owasp.org/www-community/attacks/CSV_Injection

U+2212 is the minus sign of typesetters."""


class ActionItems:
    """Tasks out of minutes, letters and plans."""

    name = "action_items"
    version = 1
    title = lazy("Action items")
    hint = lazy("Who must do what by when, as a table.")
    needs_ai = True
    choices: Sequence[Option] = ()

    def next(self, text: str, options: Options, saved: Mapping[str, str], call_chars: int) -> Todo | Finished:
        """One request a part; the rows of all answers in one table, each once."""
        parts = cut(text, call_chars)
        if len(parts) == 1 and "list" not in saved:
            return Todo([Step("list", Prompt(ASK, text))], done=0, total=1)
        answers = [saved["list"]] if len(parts) == 1 else over_parts(parts, saved, _about_part)
        if isinstance(answers, Todo):
            return answers
        rows = list(dict.fromkeys(row for answer in answers for row in rows_of(answer)))
        return Finished(table_of(rows), {"items": len(rows), "parts": len(parts)})

    def spoken(self, result: str) -> str:
        """The saved table with its heads, or the sentence in its place, in the language that is spoken."""
        if result == NONE:
            return _("The document gives no task to anybody.")
        head, end, rows = result.partition("\n")
        return f"{_line(head_in_words())}{end}{rows}" if head == _line(HEAD) else result

    def csv(self, result: str) -> str:
        """The saved table as CSV, with cells that no spreadsheet takes for formulas."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(head_in_words())
        writer.writerows([inert(cell) for cell in row] for row in rows_of(result))
        return file.getvalue()


def _about_part(part: str, number: int, of: int) -> Prompt:
    return Prompt(f"This is part {number} of {of} of a longer document. {ASK}", part)


def rows_of(markdown: str) -> list[tuple[str, ...]]:
    """The rows of the Markdown tables in a text, three cells each, without heads and rules."""
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
    """The rows as one Markdown table, or a sentence where there are none."""
    if not rows:
        return NONE
    return "\n".join(map(_line, [HEAD, ("---", "---", "---"), *rows]))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def head_in_words() -> tuple[str, ...]:
    """The heads of the columns in the language that is spoken."""
    return _("Who"), _("What"), _("By when")


def inert(cell: str) -> str:
    """Put an apostrophe before what a spreadsheet would calculate.

    Full-width, small and raised forms of the signs count as the signs: spreadsheets in East Asia take them so.
    """
    return f"'{cell}" if unicodedata.normalize("NFKC", cell[:1]).startswith(UNSAFE) else cell


WORKFLOW = ActionItems()
