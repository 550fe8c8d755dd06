"""What a provider's answer may not bring along: images, and addresses that the document does not hold."""

from __future__ import annotations

import re

IMAGE = re.compile(r"!\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|<img\b[^>]*>", re.IGNORECASE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(\s*<?([^)\s>]+)[^)]*\)")
ADDRESS = re.compile(r"\b(?:https?://|www\.|mailto:)[^\s<>()\[\]\"']+", re.IGNORECASE)


def tidy(answer: str, document: str) -> str:
    """The answer without images, and without addresses that do not stand in the document.

    A document can talk a model into ending its answer with an address that carries what was read
    (https://simonwillison.net/2023/Apr/14/worst-that-can-happen/), so only what the document itself says stays.
    """
    text = IMAGE.sub(lambda found: found.group(1) or "", answer)
    text = LINK.sub(lambda found: found.group(0) if found.group(2) in document else found.group(1), text)
    text = ADDRESS.sub(lambda found: _known(found.group(0), document), text)
    return text.strip()


def _known(address: str, document: str) -> str:
    bare = address.rstrip(".,;:!?")
    return address if bare in document else "[address removed]" + address[len(bare) :]
