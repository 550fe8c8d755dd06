"""Extracts the text that a person reads on a web page.

Leaves out scripts, styles, templates, comments, `noscript`, frames and other embedded content with its fallback text,
drawings; every element with `hidden`, a `dialog` that is not open, and every element that the page's own style sheets
and `style` attributes hide, see `css_visibility`. Image descriptions (`alt`) are left out as well, because a sighted
reader does not see them. Keeps the title, closed `details`, and `aria-hidden` parts, which are hidden from screen
readers only. Text hidden by a linked sheet, by a script, by colour or by position is read as visible.

Nothing is fetched, and only the entities of the HTML standard are resolved.
"""

from __future__ import annotations

import re

from lxml import etree

from tasks.intake.errors import DocumentRefused, Refusal
from tasks.intake.formats.css_visibility import PageStyles

_DROPPED = frozenset({
    "script", "style", "template", "noscript", "iframe", "object", "embed", "audio", "video", "canvas", "svg", "math",
    "datalist", "frameset", "noframes", "applet", "map",
})  # fmt: skip
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
    "legend", "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "tfoot",
    "thead", "title", "tr", "ul",
})  # fmt: skip
_APART = frozenset({
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "ul", "ol", "dl", "table", "blockquote", "title",
})  # fmt: skip
_SPACES = re.compile(r"[ \t\n\r\f]+")


def html_to_text(page: str) -> str:
    """Return the visible text, one line per block, the cells of a row separated by tabs.

    Raises DocumentRefused: damaged if the page cannot be read to its end; too_much_memory.
    """
    # libxml2 stops at the first NUL.
    markup = page.replace("\0", "").encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(markup, parser)
    except etree.XMLSyntaxError:
        root = None
    # The parser repairs all other errors; after a fatal error (nested too deeply, say) the rest of the page is missing.
    fatal = {error.type for error in parser.error_log.filter_from_fatals()}
    if etree.ErrorTypes.ERR_NO_MEMORY in fatal:
        raise DocumentRefused(Refusal.TOO_MUCH_MEMORY)
    if fatal:
        raise DocumentRefused(Refusal.DAMAGED)
    return "" if root is None else _Writer().write(root)


def _is_visible(element: etree._Element, styles: PageStyles) -> bool:
    if element.tag in _DROPPED or element.get("hidden") is not None:
        return False
    if element.tag == "dialog" and element.get("open") is None:
        return False
    return not styles.hides(element)


class _Writer:
    """Writes the text of a page. Walks it without recursion, so that no depth of nesting can break it."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._preformatted = 0
        self._skipped: etree._Element | None = None

    def write(self, root: etree._Element) -> str:
        styles = PageStyles(root)
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if event == "start" and not _is_visible(element, styles):
                walk.skip_subtree()
                self._skipped = element
            elif event == "start":
                self._open(element)
            else:
                self._close(element)
        lines = "".join(self._out).split("\n")
        text = "\n".join(line.rstrip() if line.startswith(("\t", " ")) else line.strip() for line in lines)
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def _open(self, element: etree._Element) -> None:
        if element.tag in _BLOCKS:
            self._break(2 if element.tag in _APART else 1)
        if element.tag == "li":
            self._out.append("- ")
        elif element.tag == "br":
            self._out.append("\n")
        self._preformatted += element.tag in ("pre", "textarea")
        self._add(element.text)

    def _close(self, element: etree._Element) -> None:
        if element is self._skipped:
            self._skipped = None
        else:
            self._preformatted -= element.tag in ("pre", "textarea")
            if element.tag in ("td", "th"):
                self._out.append("\t")
            elif element.tag in _BLOCKS:
                self._break(2 if element.tag in _APART else 1)
        self._add(element.tail)

    def _break(self, lines: int) -> None:
        last = self._out[-1] if self._out else ""
        if last == "- ":
            return
        present = len(last) - len(last.rstrip("\n"))
        self._out.append("\n" * max(0, lines - present))

    def _add(self, text: str | None) -> None:
        if not text:
            return
        if self._preformatted:
            self._out.append(text)
            return
        text = _SPACES.sub(" ", text)
        if not self._out or self._out[-1].endswith(("\n", "\t", " ")):
            text = text.lstrip(" ")
        if text:
            self._out.append(text)
