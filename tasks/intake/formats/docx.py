"""Events of one WordprocessingML part → its text. Names are compared without the namespace, of which there are two."""

from __future__ import annotations

from tasks.intake.formats.text_collector import Written, local_name

_OFF = ("0", "false", "off")
# Deleted or moved away, field codes, the second rendering of what an older Word cannot draw, and machine data.
_SKIPPED = frozenset({"del", "moveFrom", "instrText", "delInstrText", "delText", "Fallback", "sectPr"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class WordText(Written):
    """Collects the text of `w:p` paragraphs; table cells are divided by tabs, rows and paragraphs by newlines."""

    def __init__(self, max_chars: int, hidden_styles: frozenset[str] = frozenset()) -> None:
        self.unread = 0
        """Whole documents and pages that are embedded in the text as files, and not read."""
        self._out: list[str] = []
        self._left = max_chars
        self._hidden_styles = hidden_styles
        self._skipping = 0
        self._in_text = 0
        self._in_properties = 0
        # Both nest where a drawing holds a text box, so each one remembers where its text began, and if it is hidden.
        self._runs: list[tuple[int, bool]] = []
        self._paragraphs: list[tuple[int, bool]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipping or name in _SKIPPED or _is_divider(name, attributes):
            self._skipping += 1
        elif name == "t":
            self._in_text += 1
        elif name == "r":
            self._runs.append((len(self._out), False))
        elif name == "p":
            self._paragraphs.append((len(self._out), False))
        elif name == "txbxContent":
            self._begin_line()
        elif name == "altChunk":
            self.unread += 1
        elif name in ("pPr", "tabs"):
            self._in_properties += 1
        elif name == "numPr":
            self._add("- ")
        elif name == "pStyle" and self._paragraphs and _value(attributes, "val") in self._hidden_styles:
            self._paragraphs[-1] = (self._paragraphs[-1][0], True)
        elif name == "rStyle" and self._runs and not self._in_properties:
            self._runs[-1] = (self._runs[-1][0], _value(attributes, "val") in self._hidden_styles)
        elif name in ("vanish", "webHidden") and self._runs and not self._in_properties:
            self._runs[-1] = (self._runs[-1][0], is_on(attributes))
        elif name in _BREAKS and not self._in_properties:
            self._add(_BREAKS[name])
        elif name in ("footnoteReference", "endnoteReference"):
            self._add(f"[{_value(attributes, 'id')}]")
        elif name in ("footnote", "endnote"):
            self._add(f"[{_value(attributes, 'id')}] ")

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
            self._end_of_paragraph()
        elif name == "tc":
            self._end_of_cell("\t")
        elif name == "tr":
            self._end_of_cell("\n")

    def data(self, text: str) -> None:
        if self._in_text and not self._skipping:
            self._add(text)

    def close(self) -> str:
        return "".join(self._out).strip()

    def _end_of_paragraph(self) -> None:
        begin, hidden = self._paragraphs.pop() if self._paragraphs else (0, False)
        if hidden:
            del self._out[begin:]
        else:
            self._add("\n")


class HiddenStyles:
    """Collects the styles of `styles.xml` whose text no person sees, also those that are based on such a style."""

    def __init__(self) -> None:
        self._based_on: dict[str, str | None] = {}
        self._hides: dict[str, bool] = {}
        self._style = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
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
        """What stands between the tags says nothing here."""

    def close(self) -> frozenset[str]:
        return frozenset(style for style in {*self._hides, *self._based_on} if style and self._is_hidden(style))

    def _is_hidden(self, style: str) -> bool:
        seen: set[str] = set()
        at: str | None = style
        while at and at not in seen:
            if at in self._hides:
                return self._hides[at]
            seen.add(at)
            at = self._based_on.get(at)
        return False


def is_on(attributes: dict[str, str]) -> bool:
    """Whether a property that is there is switched on."""
    return (_value(attributes, "val") or "1") not in _OFF


def _is_divider(name: str, attributes: dict[str, str]) -> bool:
    """The line above the notes is kept among the notes."""
    return name in ("footnote", "endnote") and _value(attributes, "type") not in (None, "normal")


def _value(attributes: dict[str, str], name: str) -> str | None:
    return next((value for key, value in attributes.items() if local_name(key) == name), None)
