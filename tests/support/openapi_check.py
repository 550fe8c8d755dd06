"""Checks every API response of every test against the OpenAPI document."""

from __future__ import annotations

import json
import weakref
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator, FormatChecker
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from webapp.api.openapi import PREFIX, document, path_of
from webapp.services import services

_known: weakref.WeakKeyDictionary[Flask, dict[str, Any]] = weakref.WeakKeyDictionary()


class NotAsDescribed(AssertionError):
    """Raised for a response that the document does not allow."""


class CheckedClient(FlaskClient):
    """A test client that compares the API's responses with the document."""

    def open(self, *arguments: Any, **more: Any) -> TestResponse:
        answer = super().open(*arguments, **more)
        if answer.request.path.startswith(f"{PREFIX}/"):
            check(self.application, answer)
        return answer


def check(app: Any, answer: TestResponse) -> None:
    """Raise NotAsDescribed unless the document has this response for this request."""
    described = _known[app] if app in _known else _known.setdefault(app, description_of(app))
    asked = answer.request
    adapter = app.url_map.bind("localhost")
    try:
        rule, _ = adapter.match(asked.path, asked.method, return_rule=True)
    except HTTPException as nowhere:  # no such route, or not by this method: an error, and a problem document
        if answer.status_code not in (404, 405) or answer.status_code != nowhere.code:
            raise NotAsDescribed(f"{asked.method} {asked.path}: {answer.status}") from None
        operation = None
    else:
        operation = described["paths"][path_of(rule.rule)].get(asked.method.lower())
    if answer.status_code == 500:
        return  # an unintended error; the test that provoked it checks it
    check_against(described, operation, answer.status_code, answer.headers, answer.data)


def description_of(app: Any) -> dict[str, Any]:
    """Return the document of this app, as a client receives it."""
    with app.test_request_context():
        return json.loads(json.dumps(document(app, services().settings)))


def check_against(described: dict[str, Any], operation: Any, status: int, headers: Any, body: bytes) -> None:
    """Compare status, media type, headers and body. `operation` None means that the request matched no route."""
    problem = {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    described_response = problem if operation is None else operation["responses"].get(str(status))
    if described_response is None:
        raise NotAsDescribed(f"{status} is not described: {body[:300]!r}")
    while "$ref" in described_response:
        described_response = _found(described, described_response["$ref"])
    for name in set(headers.keys()) & {"RateLimit", "RateLimit-Policy", "Waybill-Wait", "Link", "Location"}:
        if name not in described_response.get("headers", {}) and status < 400:
            raise NotAsDescribed(f"the header {name} is not described for {status}")
    if not described_response.get("content"):
        if body:
            raise NotAsDescribed(f"{status} has no body, and this came: {body[:300]!r}")
        return
    [(media, content)] = described_response["content"].items()
    if headers["Content-Type"] != media:
        raise NotAsDescribed(f"{headers['Content-Type']} and not {media}")
    schema = {**content["schema"], "components": described["components"]}
    faults = list(Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(json.loads(body)))
    if faults:
        raise NotAsDescribed(f"{status}: {faults[0].message} at {list(faults[0].path)}")


def _found(described: dict[str, Any], reference: str) -> Any:
    found: Any = described
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found
