"""Writes a result as a Word document: the content of the page, without anything active.

A link is written as its text and its URL.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from docx import Document
from docx.document import Document as WordDocument
from docx.text.paragraph import Paragraph
from markdown_it.token import Token

from webapp.jobs.results.html import blocks

MARKS = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}
LISTS = {"bullet_list_open": "List Bullet", "ordered_list_open": "List Number"}
MAX_PROPERTY_LENGTH = 255
MAX_LIST_DEPTH = 3
"""Word's default template has no style for lists that are nested deeper."""


def as_word(text: str, *, title: str, notes: Sequence[str]) -> bytes:
    """Return the bytes of a .docx file: the Markdown `text` under a title, with `notes` as small print below."""
    document = Document()
    document.core_properties.title = _without_controls(title)[:MAX_PROPERTY_LENGTH]
    document.core_properties.author = ""
    document.core_properties.comments = ""
    document.add_heading(_without_controls(title), level=1)
    _Writer(document).write(iter(blocks(text)))
    for note in notes:
        document.add_paragraph(_without_controls(note), style="Caption")
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


class _Writer:
    """Writes Markdown tokens into a document, block by block."""

    def __init__(self, document: WordDocument) -> None:
        self._document = document
        self._lists: list[str] = []
        self._quoted = 0

    def write(self, tokens: Iterator[Token]) -> None:
        for token in tokens:
            if token.type in LISTS:
                self._lists.append(LISTS[token.type])
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                self._lists.pop()
            elif token.type in ("blockquote_open", "blockquote_close"):
                self._quoted += token.nesting
            elif token.type == "heading_open":
                _fill(self._document.add_heading(level=min(4, int(token.tag[1]) - 1)), next(tokens))
            elif token.type == "paragraph_open":
                _fill(self._document.add_paragraph(style=self._style()), next(tokens))
            elif token.type == "table_open":
                self._table(tokens)
            elif token.type in ("fence", "code_block"):
                self._document.add_paragraph(_without_controls(token.content.rstrip("\n")), style="No Spacing")

    def _style(self) -> str:
        if self._lists:
            depth = min(len(self._lists), MAX_LIST_DEPTH)
            return self._lists[-1] + (f" {depth}" if depth > 1 else "")
        return "Quote" if self._quoted else "Normal"

    def _table(self, tokens: Iterator[Token]) -> None:
        rows: list[list[Token]] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(token)
        table = self._document.add_table(rows=0, cols=max(map(len, rows)), style="Table Grid")
        for number, row in enumerate(rows):
            for cell, content in zip_longest(table.add_row().cells, row):
                if content is not None:
                    _fill(cell.paragraphs[0], content, bold=number == 0)


def _fill(paragraph: Paragraph, inline: Token, *, bold: bool = False) -> None:
    """Add the words of one block to a paragraph, with their marks."""
    marks = {"bold": int(bold), "italic": 0, "strike": 0}
    for part in inline.children or []:
        if part.type.replace("_close", "_open") in MARKS:
            marks[MARKS[part.type.replace("_close", "_open")]] += part.nesting
        elif part.type in ("softbreak", "hardbreak"):
            paragraph.add_run(" " if part.type == "softbreak" else "\n")
        elif part.content:
            run = paragraph.add_run(_without_controls(part.content))
            run.bold, run.italic, run.font.strike = (bool(marks[mark]) or None for mark in ("bold", "italic", "strike"))


def _without_controls(text: str) -> str:
    """Return the text without the characters that XML 1.0 forbids.

    Those are the other control characters, lone surrogates, and the two noncharacters U+FFFE and U+FFFF.
    """
    return "".join(
        letter for letter in text if letter in "\t\n" or (letter >= " " and not "\ud800" <= letter <= "\udfff")
    ).translate({0xFFFE: None, 0xFFFF: None})
