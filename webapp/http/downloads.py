"""Responses that a browser saves as a file and never opens as a page."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

from flask import Response

from webapp.http.file_names import MAX_LENGTH, stem_and_ending
from webapp.text.strings import one_line


def attachment(content: bytes, filename: str, content_type: str) -> Response:
    """Return a response that downloads `content` under this name."""
    return Response(content, content_type=content_type, headers={"Content-Disposition": attachment_header(filename)})


def attachment_header(filename: str) -> str:
    """Return the Content-Disposition of a download under this name, in whatever letters it is written (RFC 6266)."""
    stem, ending = stem_and_ending(one_line(filename).replace("/", "-").replace("\\", "-"))
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()[:MAX_LENGTH]
    plain = "".join(letter if letter.isalnum() or letter in " .-_()" else "_" for letter in plain).strip(" .")
    if not plain.partition(".")[0]:
        plain = "document" + plain
    return f"attachment; filename=\"{plain}{ending}\"; filename*=UTF-8''{quote(stem + ending, safe='')}"
