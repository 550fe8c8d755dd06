"""Finds the elements of a web page that its own CSS hides, as a browser would: by weight, specificity and order.

Evaluates `display`, `visibility`, `opacity` and `font-size`, in `<style>` and in `style` attributes. Nothing is
fetched, so a linked sheet does not count; nor does a rule for printing, or for a window of a certain size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import cssselect2  # type: ignore[import-untyped]
import tinycss2  # type: ignore[import-untyped]
from lxml import etree

_MAX_SHEET_CHARS = 512 * 1024
_SCREEN = re.compile(r"\s*(?:only\s+)?(?:screen|all)?\s*", re.IGNORECASE)
_MAY_HIDE = re.compile(r"none|hidden|collapse|opacity|font-size|\\", re.IGNORECASE)
_INLINE = (1, 0, 0, 0)  # the specificity of a `style` attribute, above that of every selector

Verdict = tuple[bool, bool]
"""Represents a declaration: True if it hides, and True if it is marked as important."""


class PageStyles:
    """Holds the visibility rules of one page."""

    def __init__(self, root: etree._Element) -> None:
        self._hidden: set[etree._Element] | None = None
        matcher, hides = cssselect2.Matcher(), False
        for sheet in root.iter("style"):
            text = "".join(sheet.itertext())[:_MAX_SHEET_CHARS]
            if not _MAY_HIDE.search(text):
                continue
            for rule in _rules(tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)):
                verdicts = dict(_verdicts(rule.content))
                hides |= any(hidden for hidden, _ in verdicts.values())
                for selector in _selectors(rule.prelude) if verdicts else ():
                    matcher.add_selector(selector, verdicts)
        if hides:
            wrapped = cssselect2.ElementWrapper.from_html_root(root)
            self._hidden = {node.etree_element for node in wrapped.iter_subtree() if _is_hidden(node, matcher)}

    def hides(self, element: etree._Element) -> bool:
        """Return True if this element itself is hidden, whether or not its parents are."""
        if self._hidden is not None:
            return element in self._hidden
        style = element.get("style")
        return bool(style and _MAY_HIDE.search(style)) and any(hidden for _, (hidden, _) in _verdicts(style))


def _rules(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        if node.type == "qualified-rule":
            yield node
        elif _is_for_screens(node):
            yield from _rules(tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True))


def _is_for_screens(node: Any) -> bool:
    if node.type != "at-rule" or node.lower_at_keyword != "media" or node.content is None:
        return False
    return bool(_SCREEN.fullmatch(tinycss2.serialize(node.prelude)))


def _selectors(prelude: Any) -> list[Any]:
    try:
        selectors = cssselect2.compile_selector_list(prelude)
    except cssselect2.SelectorError:
        return []
    return [selector for selector in selectors if not selector.never_matches and selector.pseudo_element is None]


def _verdicts(declarations: Any) -> Iterator[tuple[str, Verdict]]:
    for node in tinycss2.parse_blocks_contents(declarations, skip_comments=True, skip_whitespace=True):
        if node.type == "declaration" and node.lower_name in ("display", "visibility", "opacity", "font-size"):
            yield node.lower_name, (_hides(node.lower_name, node.value), node.important)


def _hides(name: str, value: Iterable[Any]) -> bool:
    tokens = [token for token in value if token.type not in ("whitespace", "comment")]
    if len(tokens) != 1:
        return False
    token = tokens[0]
    if name in ("opacity", "font-size"):
        return token.type in ("number", "percentage", "dimension") and token.value <= 0
    return token.type == "ident" and token.lower_value in {
        "display": ("none",),
        "visibility": ("hidden", "collapse"),
    }.get(name, ())


def _is_hidden(element: Any, matcher: Any) -> bool:
    strongest: dict[str, tuple[tuple[Any, ...], bool]] = {}
    rules = [(specificity, order, verdicts) for specificity, order, _, verdicts in matcher.match(element)]
    style = element.etree_element.get("style")
    if style:
        rules.append((_INLINE, 0, dict(_verdicts(style))))
    for specificity, order, verdicts in rules:
        for name, (hidden, important) in verdicts.items():
            weight = (important, (0, *specificity) if len(specificity) == 3 else specificity, order)
            if name not in strongest or weight >= strongest[name][0]:
                strongest[name] = weight, hidden
    return any(hidden for _, hidden in strongest.values())
