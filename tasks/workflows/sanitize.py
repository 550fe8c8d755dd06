"""What a provider's answer may not bring along: images, and addresses that the document does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tasks.i18n import _

REMOVED = "[address removed]"
"""Saved so, whoever asked; `removed_in_words` says it to the reader."""
# No model's answer may keep a worker busy: each repetition is bounded, and possessive where another could follow.
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
_reader.validateLink = lambda url: True  # type: ignore[method-assign]  # whoever reads the file may follow any


def tidy(answer: str, document: str) -> str:
    """The answer without images, and without addresses that do not stand in the document.

    A document can talk a model into ending its answer with an address that carries what was read
    (https://simonwillison.net/2023/Apr/14/worst-that-can-happen/), so only what the document itself says stays. Where
    something is left that a reader of Markdown would take for a foreign link or an image, no character of it is live.
    """
    text = IMAGE.sub(lambda found: found[1] or "", answer)
    text = LIVE_TAG.sub("", text)
    text = REFERENCE.sub(lambda found: found[0] if stands_in(found[1], document) else "", text)
    text = LINK.sub(lambda found: found[0] if stands_in(found[2], document) else found[1], text)
    text = ADDRESS.sub(lambda found: _known(found[0], document), text)
    return (_inert(text) if _is_live(text, document) else text).strip()


def removed_in_words(result: str) -> str:
    """A saved result that says in the language that is spoken now where an address was removed."""
    return result.replace(REMOVED, _("[address removed]"))


def stands_in(address: str, document: str) -> bool:
    """Whether the document holds this address, and not only a longer one that it is part of. A word is no address."""
    if not re.search(r"[/:.@#]", address):
        return False
    return re.search(f"(?<!{_AROUND}){re.escape(address)}(?!{_AROUND})", document) is not None


def _known(address: str, document: str) -> str:
    bare = address.rstrip(".,;:!?_~")
    return address if stands_in(bare, document) else REMOVED + address[len(bare) :]


def _is_live(text: str, document: str) -> bool:
    for token in _tokens(_reader.parse(text)):
        if token.type == "image" or (token.type in ("html_inline", "html_block") and LIVE_TAG.search(token.content)):
            return True
        if token.type == "link_open":
            address = unquote(str(token.attrs.get("href", "")))
            if not any(stands_in(one, document) for one in (address, address.removeprefix("mailto:"))):
                return True
    return False


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])


def _inert(text: str) -> str:
    """The same to read, with nothing in it that could be Markdown's or HTML's sign for a link."""
    return re.sub(r"\\*([\[\]<])", lambda found: {"[": "(", "]": ")", "<": "‹"}[found[1]], text)
