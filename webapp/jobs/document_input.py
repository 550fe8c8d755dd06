"""Validates an uploaded document before it is accepted: cheap checks that are safe in the web process.

Each refusal is a NotAccepted with a message for the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from tasks.intake.clean import clean
from tasks.intake.errors import DocumentRefused
from tasks.intake.file_types import Kind, sniff
from tasks.ledger.errors import Category
from tasks.ledger.jobs.accept import NewDocument
from tasks.settings import Settings
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.titles import MAX_TITLE_LENGTH, title_of_file, title_of_text
from webapp.text.strings import cut, one_line

ENDINGS = {Kind.MARKDOWN: "md"}


@dataclass(frozen=True)
class SubmittedDocument:
    """Represents a document that passed the checks, and the title of its job."""

    title: str
    document: NewDocument


def read_text(text: str, title: str, settings: Settings) -> SubmittedDocument:
    """Check pasted text and return it as a document. Raises NotAccepted."""
    cleaned = clean(text)
    if not cleaned.strip():
        raise NotAccepted("empty", messages.NOTHING_HANDED_IN, field="text")
    if len(cleaned) > settings.max_document_chars:
        sentence = messages.text_too_long(len(cleaned), settings.max_document_chars)
        raise NotAccepted("text_too_long", sentence, field="text")
    content = cleaned.encode()
    kind = _kind_of(content, None, "text")
    return SubmittedDocument(_requested_title(title) or title_of_text(cleaned), NewDocument(content, str(kind), None))


def read_file(filename: str, stream: IO[bytes], title: str, settings: Settings) -> SubmittedDocument:
    """Check an uploaded file and return it as a document. Raises NotAccepted."""
    content = stream.read(settings.max_upload_bytes + 1)
    if len(content) > settings.max_upload_bytes:
        raise NotAccepted("too_large", messages.file_too_large(settings.max_upload_bytes), field="file", status=413)
    name = title_of_file(filename)
    kind = _kind_of(content, name, "file")
    name = name or f"document.{ENDINGS.get(kind, kind)}"
    return SubmittedDocument(_requested_title(title) or name, NewDocument(content, str(kind), name))


def _requested_title(title: str) -> str | None:
    return cut(one_line(title), MAX_TITLE_LENGTH) or None


def _kind_of(content: bytes, name: str | None, field: str) -> Kind:
    try:
        return sniff(content, name)
    except DocumentRefused as refused:
        failure = messages.failure_of(Category.INVALID_DOCUMENT, refused.refusal)
        raise NotAccepted(str(refused.refusal), f"{failure.what} {failure.so}", field=field) from None
