"""The base class of the readers of office formats: collects text up to a limit, and separates cells."""

from __future__ import annotations

from tasks.intake.errors import DocumentRefused, Refusal


class TextCollector:
    """Collects text. `_left` is the number of characters that may still be added."""

    _out: list[str]
    _left: int

    def _end_cell(self, separator: str) -> None:
        while self._out and self._out[-1] in ("\n", "\t"):
            if self._out.pop() == "\t" and separator == "\t":
                self._out.append("\t")
                break
        self._add(separator)

    def _begin_line(self) -> None:
        """Start a new line, so that the text of a box is separate from the line that the box is anchored to."""
        if self._out and not self._out[-1].endswith("\n"):
            self._add("\n")

    def _add(self, text: str) -> None:
        self._out.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise DocumentRefused(Refusal.TOO_LONG)


def local_name(tag: str) -> str:
    """Return the name of an XML element or attribute without its namespace."""
    return tag.rpartition("}")[2]
