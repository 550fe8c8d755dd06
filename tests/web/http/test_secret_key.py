"""Tests the key that signs sessions: it is the same in every process, and can change without signing anybody out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr

from tests.web.conftest import Person

OLD, NEW = SecretStr("o" * 32), SecretStr("n" * 32)
Made = Callable[..., Flask]


@pytest.fixture
def cookie(make_app: Made, ada: Person) -> Iterator[str]:
    """Return the cookie of a user who signed in under the old key."""
    person = Person(make_app(secret_key=OLD), ada.id)
    person.get("/account")
    held = person.client.get_cookie("session")
    assert held is not None
    yield held.value


def with_cookie(app: Flask, value: str) -> FlaskClient:
    client = app.test_client()
    client.set_cookie("session", value)
    return client


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({"secret_key": OLD}, 200),  # another process, or the same after a restart
        ({"secret_key": NEW, "secret_key_fallbacks": OLD}, 200),
        ({"secret_key": NEW}, 302),  # control: without the earlier key everybody is signed out
    ],
)
def test_who_is_signed_in_stays_so(make_app: Made, cookie: str, keys: dict[str, Any], status: int) -> None:
    assert with_cookie(make_app(**keys), cookie).get("/account").status_code == status


def test_after_the_change_a_session_is_signed_with_the_new_key(make_app: Made, cookie: str) -> None:
    client = with_cookie(make_app(secret_key=NEW, secret_key_fallbacks=OLD), cookie)
    with client.session_transaction() as session:
        session["day"] = "yesterday"
    client.get("/account")  # a new day is stored in the session, so it is signed again
    renewed = client.get_cookie("session")
    assert renewed is not None
    assert with_cookie(make_app(secret_key=NEW), renewed.value).get("/account").status_code == 200
