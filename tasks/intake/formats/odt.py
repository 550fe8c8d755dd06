"""Events of an OpenDocument `content.xml` → its text. In `styles.xml` the only paragraphs are headers and footers."""

from __future__ import annotations

import re

from tasks.intake.formats.text_collector import Written, local_name

# Deleted passages, comments, hidden fields, forms, declarations and data.
_SKIPPED = frozenset({
    "tracked-changes", "annotation", "hidden-text", "hidden-paragraph", "forms", "scripts", "font-face-decls",
    "binary-data", "sequence-decls", "variable-decls", "user-field-decls",
})  # fmt: skip
_PICTURE_WORDS = re.compile(r"\{[^}]*svg[^}]*\}(?:title|desc)")
_SPACES = re.compile(r"[ \t\r\n]+")


class OdtText(Written):
    """Collects the text of `text:p` and `text:h`; table cells are divided by tabs, notes stand at the end."""

    def __init__(self, max_chars: int, hidden_styles: frozenset[str] = frozenset()) -> None:
        self._out: list[str] = []
        self._body = self._out
        self._notes: list[str] = []
        self._left = max_chars
        self._skipping = 0
        self._in_paragraph = 0
        self._style = ""
        self.hidden_styles: set[str] = set(hidden_styles)
        self._citation = 0  # where in the body the last mark of a note begins

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        values = {local_name(key): value for key, value in attributes.items()}
        if name == "style":
            self._style = values.get("name", "")
        elif name == "text-properties" and values.get("display") == "none":
            self.hidden_styles.add(self._style)
        if self._skipping or name in _SKIPPED or _PICTURE_WORDS.match(tag) or self._is_hidden(name, values):
            self._skipping += 1
        elif name in ("p", "h"):
            self._in_paragraph += 1
        elif name == "text-box":
            self._begin_line()
        elif name == "note-citation":
            self._citation = len(self._body)
            self._add("[")
        elif name == "note-body":
            self._out = self._notes
            self._add("".join(self._body[self._citation :]) + " ")
        elif name == "list-item":
            self._add("- ")
        elif name == "s" and self._in_paragraph:
            self._add(" " * min(int(values.get("c", "1")) if values.get("c", "1").isdecimal() else 1, 1_000))
        elif name in ("tab", "line-break") and self._in_paragraph:
            self._add("\t" if name == "tab" else "\n")

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
            self._end_of_cell("\t")
        elif name == "table-row":
            self._end_of_cell("\n")

    def data(self, text: str) -> None:
        if self._in_paragraph and not self._skipping:
            text = _SPACES.sub(" ", text)
            if text.startswith(" ") and (not self._out or self._out[-1].endswith((" ", "\n"))):
                text = text[1:]
            self._add(text)

    def close(self) -> str:
        return "\n".join(filter(None, ("".join(self._body).strip(), "".join(self._notes).strip())))

    def _is_hidden(self, name: str, values: dict[str, str]) -> bool:
        if name in ("p", "h", "span", "section"):
            return values.get("style-name") in self.hidden_styles or values.get("display") == "none"
        return False
