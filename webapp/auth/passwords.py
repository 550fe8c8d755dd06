"""Passwords: hashed with Argon2id, verified in the same work whether or not the account exists."""

from __future__ import annotations

import functools

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp.models import NO_PASSWORD

# The least that https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html recommends:
# eight threads signing people in at once must fit into the memory of a small plan.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str) -> str:
    """What is stored of a password."""
    return _hasher.hash(password)


def verify(password: str, stored: str | None) -> bool:
    """Whether the password is the stored one. None stands for no account: as much work, and False.

    As much work, too, for an account without a password.
    """
    known = stored is not None and stored != NO_PASSWORD
    try:
        _hasher.verify(stored if stored is not None and known else _nobody(), password)
    except (VerificationError, InvalidHashError):
        return False
    return known


def needs_rehash(stored: str) -> bool:
    """Whether it was hashed with other parameters than today's."""
    return _hasher.check_needs_rehash(stored)


@functools.cache
def _nobody() -> str:
    return _hasher.hash("the password of nobody")
