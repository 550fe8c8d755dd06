"""Events of one WordprocessingML part → its text. Names are compared without the namespace, of which there are two."""

from __future__ import annotations

from tasks.intake.written import Written, local_name

_OFF = ("0", "false", "off")
# Deleted or moved away, field codes, the second rendering of what an older Word cannot draw, and machine data.
_SKIPPED = frozenset({"del", "moveFrom", "instrText", "delInstrText", "delText", "Fallback", "sectPr"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class WordText(Written):
    """Collects the text of `w:p` paragraphs; table cells are divided by tabs, rows and paragraphs by newlines."""

    def __init__(self, max_chars: int) -> None:
        self._out: list[str] = []
        self._left = max_chars
        self._skipping = 0
        self._in_text = 0
        self._in_properties = 0
        # Runs nest where a drawing holds a text box, so each one remembers where its text began.
        self._runs: list[tuple[int, bool]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipping or name in _SKIPPED or _is_divider(name, attributes):
            self._skipping += 1
        elif name == "t":
            self._in_text += 1
        elif name == "r":
            self._runs.append((len(self._out), False))
        elif name in ("pPr", "tabs"):
            self._in_properties += 1
        elif name == "numPr":
            self._add("- ")
        elif name in ("vanish", "webHidden") and self._runs and not self._in_properties:
            if (_value(attributes, "val") or "1") not in _OFF:
                self._runs[-1] = (self._runs[-1][0], True)
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
            self._add("\n")
        elif name == "tc":
            self._end_of_cell("\t")
        elif name == "tr":
            self._end_of_cell("\n")

    def data(self, text: str) -> None:
        if self._in_text and not self._skipping:
            self._add(text)

    def close(self) -> str:
        return "".join(self._out).strip()


def _is_divider(name: str, attributes: dict[str, str]) -> bool:
    """The line above the notes is kept among the notes."""
    return name in ("footnote", "endnote") and _value(attributes, "type") not in (None, "normal")


def _value(attributes: dict[str, str], name: str) -> str | None:
    return next((value for key, value in attributes.items() if local_name(key) == name), None)
