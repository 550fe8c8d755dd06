"""Tests that passwords are hashed as recommended. The tests of the pages use cheaper hashes."""

from __future__ import annotations

from argon2 import PasswordHasher

from webapp.auth import passwords


def test_the_parameters_are_those_that_owasp_recommends() -> None:
    stored = passwords.hash_password("a harbour at night")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert passwords.verify("a harbour at night", stored) and not passwords.verify("a harbour", stored)
    assert not passwords.needs_rehash(stored)
    assert passwords.needs_rehash(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("a harbour at night"))
