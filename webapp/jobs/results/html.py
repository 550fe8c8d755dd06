"""Renders results as safe HTML. A model made the text out of a document that nobody checked: nothing in it may act.

Markdown becomes a small set of tags, without links, pictures or raw HTML. A link is shown as its text followed by its
URL, because the text of a link can pretend anything. The page sends no request to a host that a document names.
"""

from __future__ import annotations

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

TAGS = {
    *("p", "ul", "ol", "li", "strong", "em", "s", "code", "pre", "blockquote", "br", "hr"),
    *("h3", "h4", "h5", "h6", "figure", "table", "thead", "tbody", "tr", "th", "td"),
}
TOP_HEADING = 3
"""The page itself uses the first two levels."""

_markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
# In a figure, a wide table scrolls by itself and not with the whole page.
_markdown.add_render_rule("table_open", lambda *_: "<figure><table>\n")
_markdown.add_render_rule("table_close", lambda *_: "</table></figure>\n")


def blocks(text: str) -> list[Token]:
    """Return the result as Markdown tokens, with each link and picture replaced by its text and its URL."""
    tokens = _markdown.parse(text)
    levels = sorted({token.tag for token in tokens if token.type == "heading_open"})
    level = TOP_HEADING - 1
    for token in tokens:
        if token.type == "heading_open":  # whatever levels the text uses, the page skips none
            level = min(6, level + 1, TOP_HEADING + levels.index(token.tag))
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
        if token.type == "inline" and token.children:
            token.children = _without_links(token.children)
    return tokens


def summary_html(text: str) -> Markup:
    """Return the result as HTML that is safe in a page."""
    tokens = blocks(text)
    html = _markdown.renderer.render(tokens, _markdown.options, {})
    return Markup(nh3.clean(html, tags=TAGS, attributes={}, link_rel=None))


def _without_links(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    open_links: list[tuple[str, int]] = []
    for token in tokens:
        if token.type == "link_open":
            open_links.append((str(token.attrs.get("href", "")), len(kept)))
        elif token.type == "link_close":
            url, start = open_links.pop()
            if url and url not in "".join(part.content for part in kept[start:]):
                kept.append(_text(f" ({url})"))
        elif token.type == "image":
            url = str(token.attrs.get("src", ""))
            kept.append(_text(f"{token.content} ({url})" if token.content else url))
        else:
            kept.append(token)
    return kept


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
