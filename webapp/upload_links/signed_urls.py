"""Addresses that nobody can guess: ids signed with the site's secret, each sort with a salt of its own."""

from __future__ import annotations

import hashlib
import uuid
from typing import TypeVar

from flask import current_app
from itsdangerous import BadSignature, Signer, TimestampSigner

S = TypeVar("S", bound=Signer)
LINK, RECEIPT, FORM = "upload-link", "handed-in", "upload-form"
FORM_SECONDS = 24 * 3600
"""How long a form may stay open before it is sent."""


def sign(salt: str, *ids: uuid.UUID) -> str:
    """The ids as a word for an address."""
    return _signer(Signer, salt).sign("".join(one.hex for one in ids)).decode()


def read(salt: str, signed: str, ids: int) -> list[uuid.UUID] | None:
    """The so many ids of a word that `sign` made with this salt; None for anything else."""
    try:
        found = _ids(_signer(Signer, salt).unsign(signed.encode()), ids)
    except (BadSignature, UnicodeError):
        return None
    # A signature can be spelt in many ways that are read alike, and what is counted by the word would count for each.
    return found if found is not None and sign(salt, *found) == signed else None


def sign_form(link_id: uuid.UUID, form_key: uuid.UUID) -> str:
    """The proof that a form was made here, for this link, and when."""
    return _signer(TimestampSigner, FORM).sign(link_id.hex + form_key.hex).decode()


def read_form(signed: str, link_id: uuid.UUID) -> uuid.UUID | None:
    """The key of a form that was made here for this link, not too long ago; None for anything else."""
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
    return [uuid.UUID(text[at : at + 32].decode()) for at in range(0, len(text), 32)]
