"""Names of downloaded files: short enough for every file system, and with the extension that opens them."""

from __future__ import annotations

import re

from webapp.text.strings import cut

MAX_LENGTH, MAX_BYTES = 120, 200
_ENDING = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,10}\Z")


def stem_and_ending(name: str) -> tuple[str, str]:
    """Split a name before its extension, and shorten the stem alone: without its extension no program opens the file.

    File systems count bytes, so the whole is limited in UTF-8, too.
    """
    found = _ENDING.search(name)
    ending = found[0] if found else ""
    stem = name.removesuffix(ending)
    fits = stem.encode()[: MAX_BYTES - len(ending)].decode(errors="ignore")
    return cut(stem, min(len(fits), MAX_LENGTH - len(ending))), ending
