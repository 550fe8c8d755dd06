"""Turns the parser events of one WordprocessingML part into text.

Names are compared without their namespace, of which there are two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tasks.intake.formats.text_collector import TextCollector, local_name

_Attributes = dict[str, str]

_OFF = ("0", "false", "off")
# Deleted or moved text, field codes, the alternative for a Word version that cannot draw something, and machine data.
_SKIPPED = frozenset({"del", "moveFrom", "instrText", "delInstrText", "delText", "Fallback", "sectPr"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class WordText(TextCollector):
    """Collects the text of `w:p` paragraphs; tabs separate table cells, newlines separate rows and paragraphs."""

    def __init__(self, max_chars: int, hidden_styles: frozenset[str] = frozenset()) -> None:
        self.unread = 0
        """Counts whole documents and pages that are embedded in the text as files, and not read."""
        self._out: list[str] = []
        self._left = max_chars
        self._hidden_styles = hidden_styles
        self._skipping = 0
        self._in_text = 0
        self._in_properties = 0
        # Both nest where a drawing holds a text box, so each entry has the start of its text, and if it is hidden.
        self._runs: list[tuple[int, bool]] = []
        self._paragraphs: list[tuple[int, bool]] = []

    def start(self, tag: str, attributes: _Attributes) -> None:
        name = local_name(tag)
        if self._skipping or name in _SKIPPED or _is_separator(name, attributes):
            self._skipping += 1
        elif name in self._START_HANDLERS:
            self._START_HANDLERS[name](self, attributes)
        elif name in _BREAKS and not self._in_properties:
            self._add(_BREAKS[name])

    def _start_text(self, attributes: _Attributes) -> None:
        self._in_text += 1

    def _start_run(self, attributes: _Attributes) -> None:
        self._runs.append((len(self._out), False))

    def _start_paragraph(self, attributes: _Attributes) -> None:
        self._paragraphs.append((len(self._out), False))

    def _start_properties(self, attributes: _Attributes) -> None:
        self._in_properties += 1

    def _start_text_box(self, attributes: _Attributes) -> None:
        self._begin_line()

    def _count_unread(self, attributes: _Attributes) -> None:
        self.unread += 1

    def _start_list_item(self, attributes: _Attributes) -> None:
        self._add("- ")

    def _set_paragraph_style(self, attributes: _Attributes) -> None:
        if self._paragraphs and _value(attributes, "val") in self._hidden_styles:
            self._paragraphs[-1] = (self._paragraphs[-1][0], True)

    def _set_run_style(self, attributes: _Attributes) -> None:
        self._set_run_hidden(_value(attributes, "val") in self._hidden_styles)

    def _set_run_visibility(self, attributes: _Attributes) -> None:
        self._set_run_hidden(is_on(attributes))

    def _set_run_hidden(self, hidden: bool) -> None:
        if self._runs and not self._in_properties:
            self._runs[-1] = (self._runs[-1][0], hidden)

    def _start_note_reference(self, attributes: _Attributes) -> None:
        self._add(f"[{_value(attributes, 'id')}]")

    def _start_note(self, attributes: _Attributes) -> None:
        self._add(f"[{_value(attributes, 'id')}] ")

    _START_HANDLERS: ClassVar[Mapping[str, Callable[[WordText, _Attributes], None]]] = {
        "t": _start_text,
        "r": _start_run,
        "p": _start_paragraph,
        "pPr": _start_properties,
        "tabs": _start_properties,
        "txbxContent": _start_text_box,
        "altChunk": _count_unread,
        "numPr": _start_list_item,
        "pStyle": _set_paragraph_style,
        "rStyle": _set_run_style,
        "vanish": _set_run_visibility,
        "webHidden": _set_run_visibility,
        "footnoteReference": _start_note_reference,
        "endnoteReference": _start_note_reference,
        "footnote": _start_note,
        "endnote": _start_note,
    }

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._skipping:
            self._skipping -= 1
        elif name == "t":
            self._in_text -= 1
        elif name == "r" and self._runs:
            begin, hidden = self._runs.pop()
            if hidden:
                del self._out[begin:]
        elif name in ("pPr", "tabs"):
            self._in_properties -= 1
        elif name == "p":
            self._end_paragraph()
        elif name == "tc":
            self._end_cell("\t")
        elif name == "tr":
            self._end_cell("\n")

    def data(self, text: str) -> None:
        if self._in_text and not self._skipping:
            self._add(text)

    def close(self) -> str:
        return "".join(self._out).strip()

    def _end_paragraph(self) -> None:
        begin, hidden = self._paragraphs.pop() if self._paragraphs else (0, False)
        if hidden:
            del self._out[begin:]
        else:
            self._add("\n")


class HiddenStyles:
    """Collects the styles of `styles.xml` that hide their text, and the styles that are based on them."""

    def __init__(self) -> None:
        self._based_on: dict[str, str | None] = {}
        self._hides: dict[str, bool] = {}
        self._style = ""

    def start(self, tag: str, attributes: _Attributes) -> None:
        name = local_name(tag)
        if name == "style":
            self._style = _value(attributes, "styleId") or ""
        elif name == "basedOn":
            self._based_on[self._style] = _value(attributes, "val")
        elif name in ("vanish", "webHidden"):
            self._hides[self._style] = is_on(attributes)

    def end(self, tag: str) -> None:
        if local_name(tag) == "style":
            self._style = ""

    def data(self, text: str) -> None:
        """Ignore the text between the tags: it does not define styles."""

    def close(self) -> frozenset[str]:
        return frozenset(style for style in {*self._hides, *self._based_on} if style and self._is_hidden(style))

    def _is_hidden(self, style: str) -> bool:
        seen: set[str] = set()
        current: str | None = style
        while current and current not in seen:
            if current in self._hides:
                return self._hides[current]
            seen.add(current)
            current = self._based_on.get(current)
        return False


def is_on(attributes: _Attributes) -> bool:
    """Return True if a property that is present is turned on."""
    return (_value(attributes, "val") or "1") not in _OFF


def _is_separator(name: str, attributes: _Attributes) -> bool:
    """Return True for the line above the notes: Word stores it as a note."""
    return name in ("footnote", "endnote") and _value(attributes, "type") not in (None, "normal")


def _value(attributes: _Attributes, name: str) -> str | None:
    return next((value for key, value in attributes.items() if local_name(key) == name), None)
