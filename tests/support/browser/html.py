"""Inspects pages and results as a reader's program does: what in them could act, or contact another host."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt


class LiveParts(HTMLParser):
    """Collects everything in a page that could act, or contact another host, as a browser would read it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        own = {"src": "/static/", "href": "/", "action": "/"}
        if tag in ("img", "iframe", "object", "embed", "base") or (tag == "script" and not dict(attributes).get("src")):
            self.found.append(tag)
        for name, value in attributes:
            if name.startswith("on") or name == "style":
                self.found.append(f"{tag} {name}")
            if name in own and not re.match(f"#|{own[name]}(?!/)", value or ""):
                self.found.append(f"{tag} {name}={value}")


def live_parts(page: str) -> list[str]:
    """Return the live parts of a page, see LiveParts."""
    reader = LiveParts()
    reader.feed(page)
    return reader.found


def words(page: str) -> str:
    """Return the text of a page, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def addresses_in(markdown: str) -> list[str]:
    """Return every link and image that a reader of Markdown finds in a result, whatever its notation."""
    reader = MarkdownIt("commonmark", {"html": True})
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return re.findall(r"(?:href|src|srcset|action|poster|data)\s*=\s*[\"']?([^\"'>\s]+)", reader.render(markdown))
