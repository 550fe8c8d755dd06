"""Tests that the operators' pages are for operators. For everybody else they do not exist."""

from __future__ import annotations

import re
import uuid

from flask import Flask

from tests.web.conftest import Browser, Person


def ops_addresses(app: Flask) -> list[tuple[str, str]]:
    """Return every method and URL under /ops, with a value for each parameter."""
    found = []
    for rule in app.url_map.iter_rules():
        if rule.rule == "/ops" or rule.rule.startswith("/ops/") or rule.endpoint.startswith("ops"):
            address = re.sub(r"<uuid:[^>]+>", str(uuid.uuid4()), rule.rule)
            address = re.sub(r"<[^>]+>", "1", address)
            found += [(method, address) for method in sorted((rule.methods or set()) - {"OPTIONS"})]
    return found


def test_a_plain_person_finds_nothing_at_any_of_them(app: Flask, ada: Person) -> None:
    ada.get("/")  # the first page of a day extends the session
    nothing = ada.get("/nothing-here")
    assert nothing.status_code == 404
    asked = [*ops_addresses(app), ("GET", "/ops/nothing"), ("PUT", "/ops"), ("OPTIONS", "/ops"), ("POST", "/ops/")]
    assert len(asked) > 5
    for method, address in asked:
        answer = ada.client.open(address, method=method)
        assert answer.status_code == 404, (method, address)
        assert dict(answer.headers) | {"Date": ""} == dict(nothing.headers) | {"Date": ""}, (method, address)
        if method != "HEAD":
            assert answer.text == nothing.text, (method, address)


def test_nobody_is_sent_to_sign_in(app: Flask, browser: Browser) -> None:
    for method, address in ops_addresses(app):
        answer = browser.client.open(address, method=method)
        assert answer.status_code == 302 and answer.location.startswith("/login"), (method, address)


def test_an_operator_is_let_in_and_shown_the_way(olga: Person, ada: Person) -> None:
    assert olga.get("/ops").status_code == 200
    assert 'href="/ops"' in olga.get("/").text
    assert "/ops" not in ada.get("/").text


def test_a_form_of_the_operator_needs_its_proof_of_origin(app: Flask, olga: Person) -> None:
    forms = [address for method, address in ops_addresses(app) if method == "POST"]
    for address in forms:
        assert olga.client.post(address).status_code == 400, address
