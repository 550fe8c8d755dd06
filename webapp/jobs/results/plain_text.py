"""Writes a result as plain text, for a mail or a note: the words without the Markdown syntax."""

from __future__ import annotations

from markdown_it.token import Token

from webapp.jobs.results.html import blocks

INDENT = "  "


def as_text(text: str) -> str:
    """Return the Markdown `text` as plain text.

    Paragraphs are separated by an empty line, list items start with a dash or their number, and cells are separated by
    a bar.
    """
    lines: list[str] = []
    numbers: list[int | None] = []  # the next number of each open list; None for one with dashes
    cells: list[str] | None = None  # the cells of the open table row
    lead = ""
    for token in blocks(text):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            numbers.append(int(token.attrs.get("start", 1)) if token.type.startswith("ordered") else None)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
            lead = INDENT * len(numbers)
            if not numbers:
                lines.append("")
        elif token.type == "list_item_open":
            number = numbers[-1]
            lead = INDENT * (len(numbers) - 1) + ("- " if number is None else f"{number}. ")
            numbers[-1] = None if number is None else number + 1
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            lines.append(" | ".join(cells or []))
            cells = None
        elif token.type == "table_close":
            lines.append("")
        elif token.type in ("fence", "code_block"):
            lines += [token.content.rstrip("\n"), ""]
        elif token.type == "inline" and cells is not None:
            cells.append(_words(token))
        elif token.type == "inline":
            lines.append(lead + _words(token))
            lead = INDENT * len(numbers)
            if not numbers:
                lines.append("")
    return "\n".join(lines).strip() + "\n"


def _words(inline: Token) -> str:
    breaks = {"softbreak": " ", "hardbreak": "\n"}
    return "".join(breaks.get(part.type, part.content) for part in inline.children or [])
