"""URLs that nobody can guess: ids signed with the site's secret, with a separate salt for each kind."""

from __future__ import annotations

import hashlib
import uuid
from typing import TypeVar

from flask import current_app
from itsdangerous import BadSignature, Signer, TimestampSigner

S = TypeVar("S", bound=Signer)
LINK, RECEIPT, FORM = "upload-link", "handed-in", "upload-form"
FORM_SECONDS = 24 * 3600
"""A form must be sent within this time after it was opened."""


def sign(salt: str, *ids: uuid.UUID) -> str:
    """Return the ids as a signed token for a URL."""
    return _signer(Signer, salt).sign("".join(item.hex for item in ids)).decode()


def read(salt: str, signed: str, ids: int) -> list[uuid.UUID] | None:
    """Return the ids of a token that `sign` made with this salt. `ids` is their number.

    Returns None for anything else.
    """
    try:
        found = _ids(_signer(Signer, salt).unsign(signed.encode()), ids)
    except (BadSignature, UnicodeError):
        return None
    # Several spellings of a signature decode to the same bytes. Only the one from `sign` is accepted: rate limits count
    # by token, and each spelling would get a limit to itself.
    return found if found is not None and sign(salt, *found) == signed else None


def sign_form(link_id: uuid.UUID, form_key: uuid.UUID) -> str:
    """Return a token which proves that this site made the form, for which link, and when."""
    return _signer(TimestampSigner, FORM).sign(link_id.hex + form_key.hex).decode()


def read_form(signed: str, link_id: uuid.UUID) -> uuid.UUID | None:
    """Return the key of a form that this site made for this link within `FORM_SECONDS`; None for anything else."""
    try:
        found = _ids(_signer(TimestampSigner, FORM).unsign(signed.encode(), max_age=FORM_SECONDS), 2)
    except (BadSignature, UnicodeError):
        return None
    return found[1] if found is not None and found[0] == link_id else None


def _signer(kind: type[S], salt: str) -> S:
    secret = current_app.secret_key
    assert secret, "the settings refuse to start without one"
    return kind(secret, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256)


def _ids(text: bytes, count: int) -> list[uuid.UUID] | None:
    if len(text) != 32 * count:
        return None
    return [uuid.UUID(text[start : start + 32].decode()) for start in range(0, len(text), 32)]
