"""Hashes passwords with Argon2id, and verifies them with the same work whether or not the account exists."""

from __future__ import annotations

import functools

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp.models import NO_PASSWORD

# These are the minimum parameters of https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html:
# eight threads signing people in at once must fit into the memory of a small plan.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str) -> str:
    """Return the hash that is stored for a password."""
    return _hasher.hash(password)


def verify(password: str, stored: str | None) -> bool:
    """Return True if the password matches.

    Takes the same time if `stored` is None (no account) or the account has no password, so that timing does not reveal
    which accounts exist.
    """
    known = stored is not None and stored != NO_PASSWORD
    try:
        _hasher.verify(stored if stored is not None and known else _nobody(), password)
    except (VerificationError, InvalidHashError):
        return False
    return known


def needs_rehash(stored: str) -> bool:
    """Return True if the password was hashed with other than the current parameters."""
    return _hasher.check_needs_rehash(stored)


@functools.cache
def _nobody() -> str:
    return _hasher.hash("the password of nobody")
