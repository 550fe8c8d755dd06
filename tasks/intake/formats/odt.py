"""Turns the parser events of an OpenDocument `content.xml` into text.

Reads `styles.xml` too, where the only paragraphs are headers and footers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from tasks.intake.formats.text_collector import TextCollector, local_name

_Attributes = dict[str, str]

# Deleted passages, comments, hidden fields, forms, declarations and data.
_SKIPPED = frozenset({
    "tracked-changes", "annotation", "hidden-text", "hidden-paragraph", "forms", "scripts", "font-face-decls",
    "binary-data", "sequence-decls", "variable-decls", "user-field-decls",
})  # fmt: skip
_PICTURE_DESCRIPTION = re.compile(r"\{[^}]*svg[^}]*\}(?:title|desc)")
_SPACES = re.compile(r"[ \t\r\n]+")


class OdtText(TextCollector):
    """Collects the text of `text:p` and `text:h`; tabs separate table cells, and notes come at the end."""

    def __init__(self, max_chars: int, hidden_styles: frozenset[str] = frozenset()) -> None:
        self._out: list[str] = []
        self._body = self._out
        self._notes: list[str] = []
        self._left = max_chars
        self._skipping = 0
        self._in_paragraph = 0
        self._style = ""
        self.hidden_styles: set[str] = set(hidden_styles)
        self._citation = 0  # the position in the body where the last note reference begins

    def start(self, tag: str, attributes: _Attributes) -> None:
        name = local_name(tag)
        values = {local_name(key): value for key, value in attributes.items()}
        self._note_hidden_style(name, values)
        if self._skipping or name in _SKIPPED or _PICTURE_DESCRIPTION.match(tag) or self._is_hidden(name, values):
            self._skipping += 1
        elif name in self._START_HANDLERS:
            self._START_HANDLERS[name](self, values)

    def _note_hidden_style(self, name: str, values: _Attributes) -> None:
        """Remember the styles that hide their text, also while the text itself is skipped."""
        if name == "style":
            self._style = values.get("name", "")
        elif name == "text-properties" and values.get("display") == "none":
            self.hidden_styles.add(self._style)

    def _start_paragraph(self, values: _Attributes) -> None:
        self._in_paragraph += 1

    def _start_text_box(self, values: _Attributes) -> None:
        self._begin_line()

    def _start_note_reference(self, values: _Attributes) -> None:
        self._citation = len(self._body)
        self._add("[")

    def _start_note(self, values: _Attributes) -> None:
        self._out = self._notes
        self._add("".join(self._body[self._citation :]) + " ")

    def _start_list_item(self, values: _Attributes) -> None:
        self._add("- ")

    def _add_spaces(self, values: _Attributes) -> None:
        if self._in_paragraph:
            count = values.get("c", "1")
            self._add(" " * min(int(count) if count.isdecimal() else 1, 1_000))

    def _add_tab(self, values: _Attributes) -> None:
        if self._in_paragraph:
            self._add("\t")

    def _add_line_break(self, values: _Attributes) -> None:
        if self._in_paragraph:
            self._add("\n")

    _START_HANDLERS: ClassVar[Mapping[str, Callable[[OdtText, _Attributes], None]]] = {
        "p": _start_paragraph,
        "h": _start_paragraph,
        "text-box": _start_text_box,
        "note-citation": _start_note_reference,
        "note-body": _start_note,
        "list-item": _start_list_item,
        "s": _add_spaces,
        "tab": _add_tab,
        "line-break": _add_line_break,
    }

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._skipping:
            self._skipping -= 1
        elif name in ("p", "h"):
            self._in_paragraph -= 1
            self._add("\n")
        elif name == "note-citation":
            self._add("]")
        elif name == "note-body":
            self._out = self._body
        elif name == "table-cell":
            self._end_cell("\t")
        elif name == "table-row":
            self._end_cell("\n")

    def data(self, text: str) -> None:
        if self._in_paragraph and not self._skipping:
            text = _SPACES.sub(" ", text)
            if text.startswith(" ") and (not self._out or self._out[-1].endswith((" ", "\n"))):
                text = text[1:]
            self._add(text)

    def close(self) -> str:
        return "\n".join(filter(None, ("".join(self._body).strip(), "".join(self._notes).strip())))

    def _is_hidden(self, name: str, values: _Attributes) -> bool:
        if name in ("p", "h", "span", "section"):
            return values.get("style-name") in self.hidden_styles or values.get("display") == "none"
        return False
