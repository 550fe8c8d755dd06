"""What the readers of office formats write into: text that may not grow past its limit, and cells set apart."""

from __future__ import annotations

from tasks.intake.errors import DocumentRefused, Refusal


class Written:
    """The text so far. `_left` is how many characters may still come."""

    _out: list[str]
    _left: int

    def _end_of_cell(self, divider: str) -> None:
        while self._out and self._out[-1] in ("\n", "\t"):
            if self._out.pop() == "\t" and divider == "\t":
                self._out.append("\t")
                break
        self._add(divider)

    def _begin_line(self) -> None:
        """What comes next stands apart, as the text of a box does from the line that the box hangs on."""
        if self._out and not self._out[-1].endswith("\n"):
            self._add("\n")

    def _add(self, text: str) -> None:
        self._out.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise DocumentRefused(Refusal.TOO_LONG)


def local_name(tag: str) -> str:
    """The name of an XML element or attribute without its namespace."""
    return tag.rpartition("}")[2]
