"""The keys of a job: its operation key, the fingerprint of its document, and the reference that users quote."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # https://www.crockford.com/base32.html: no I, L, O, U to misread


def fingerprint_of(content: bytes, kind: str) -> str:
    """Return the SHA-256 of a document's kind and bytes: the same bytes may be read as Markdown or as CSV."""
    return hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()


def operation_key_of(
    account_id: uuid.UUID,
    fingerprint: str,
    workflow: str,
    workflow_version: int,
    options: Mapping[str, object],
    fresh_run_key: str | None,
) -> str:
    """Return the SHA-256 that identifies an intent. Equal keys mean the same job.

    A `fresh_run_key` gives an intent that would be equal another key, so that the work is done again on purpose.
    """
    parts = [str(account_id), fingerprint, workflow, workflow_version, dict(options), fresh_run_key]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def reference_of(job_id: uuid.UUID) -> str:
    """Return the reference that a user quotes to the operator, such as `WB-7K3F-92QD`: the first 40 bits of the id."""
    value = job_id.int >> 88
    letters = "".join(CROCKFORD[(value >> shift) & 31] for shift in range(35, -1, -5))
    return f"WB-{letters[:4]}-{letters[4:]}"


def id_range_of(reference: str) -> tuple[uuid.UUID, uuid.UUID] | None:
    """Return the lowest and the highest job id that have this reference. Returns None if it is not a reference."""
    letters = reference.strip().upper().removeprefix("WB-").replace("-", "").replace("O", "0")
    letters = letters.replace("I", "1").replace("L", "1")
    if len(letters) != 8 or any(letter not in CROCKFORD for letter in letters):
        return None
    value = 0
    for letter in letters:
        value = value << 5 | CROCKFORD.index(letter)
    return uuid.UUID(int=value << 88), uuid.UUID(int=(value << 88) | ((1 << 88) - 1))
