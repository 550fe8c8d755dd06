"""Removes images from a provider's answer, and URLs that are not in the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tasks.i18n import _

REMOVED = "[address removed]"
"""Marks a removed address in saved results, in every language; `removed_in_words` translates it."""
# No answer may keep a worker busy: each repetition is bounded, and possessive if another repetition could follow.
IMAGE = re.compile(r"!\[([^\]]{0,500}+)\](?:\([^)]{0,4000}+\)|\[[^\]]{0,200}+\])")
LIVE_TAG = re.compile(
    r"<(?:img|iframe|base|meta|link|embed|object|script)\b[^>]*>"
    r"|<[a-z][^<>]*[\s/\"'](?:[a-z:-]*(?:src|href)|srcset|action|formaction|poster|data|background|style|on[a-z]+)\s*=[^>]*>",
    re.IGNORECASE,
)
LINK = re.compile(r"(?<!!)\[([^\]]{0,500}+)\]\(\s*+<?([^)\s>]{1,4000}+)[^)]{0,500}+\)")
REFERENCE = re.compile(r"^ {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*\n?[ \t]*<?([^\s>]+)>?[^\n]*$\n?", re.MULTILINE)
ADDRESS = re.compile(
    r"(?:\b(?:[a-z][a-z0-9+.-]{1,20}://|(?:mailto|javascript|vbscript|file|blob):(?=\S)|data:(?=[a-z]+/|[,;])|www\.)"
    r"|(?<![\w:/.])//(?=[a-z0-9-]+\.)"
    r"|\b(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?::\d+)?(?:/(?=[\w?#])|[?#](?=\w)))[^\s<>()\[\]\"'|`*]*",
    re.IGNORECASE,
)
_AROUND = r"[\w/%=&#?-]"
_reader = MarkdownIt("commonmark", {"html": True})
_reader.validateLink = lambda url: True  # type: ignore[method-assign]  # other programs may make any URL a link


def sanitize(answer: str, document: str) -> str:
    """Return the answer without images, and without addresses that are not in the document.

    A document can make a model end its answer with a URL that carries the text it has read
    (https://simonwillison.net/2023/Apr/14/worst-that-can-happen/), so only addresses from the document stay. If a
    Markdown parser still finds a foreign link or an image in the rest, all link syntax is neutralized.
    """
    text = IMAGE.sub(lambda found: found[1] or "", answer)
    text = LIVE_TAG.sub("", text)
    text = REFERENCE.sub(lambda found: found[0] if _is_in_document(found[1], document) else "", text)
    text = LINK.sub(lambda found: found[0] if _is_in_document(found[2], document) else found[1], text)
    text = ADDRESS.sub(lambda found: _keep_or_remove(found[0], document), text)
    return (_neutralize(text) if _has_live_link(text, document) else text).strip()


def removed_in_words(result: str) -> str:
    """Return a saved result with its marks for removed addresses in the active language."""
    return result.replace(REMOVED, _("[address removed]"))


def _is_in_document(address: str, document: str) -> bool:
    """Return True if the document has this address, and not only as part of a longer one. A word is not an address."""
    if not re.search(r"[/:.@#]", address):
        return False
    return re.search(f"(?<!{_AROUND}){re.escape(address)}(?!{_AROUND})", document) is not None


def _keep_or_remove(address: str, document: str) -> str:
    bare = address.rstrip(".,;:!?_~")
    return address if _is_in_document(bare, document) else REMOVED + address[len(bare) :]


def _has_live_link(text: str, document: str) -> bool:
    for token in _tokens(_reader.parse(text)):
        # A tag that the answer leaves open ends with the next `>` of the page around it.
        is_html = token.type in ("html_inline", "html_block")
        if token.type == "image" or (is_html and LIVE_TAG.search(f"{token.content}>")):
            return True
        if token.type == "link_open":
            address = unquote(str(token.attrs.get("href", "")))
            if not any(_is_in_document(form, document) for form in (address, address.removeprefix("mailto:"))):
                return True
    return False


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])


def _neutralize(text: str) -> str:
    """Replace the brackets of links in Markdown and HTML by similar characters, so that the text reads the same."""
    return re.sub(r"\\*([\[\]<])", lambda found: {"[": "(", "]": ")", "<": "‹"}[found[1]], text)
