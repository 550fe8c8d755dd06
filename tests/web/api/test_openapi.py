from __future__ import annotations

import json
import re
from typing import Any

import pytest
from flask import Flask
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from tasks.ledger.errors import Category
from tasks.ledger.states import State
from tasks.workflows import WORKFLOWS
from tests.support.openapi_check import NotAsDescribed, description_of
from tests.web.conftest import Browser, Person, Program, WebHarness
from webapp.api import jobs
from webapp.api.openapi import HIDDEN, PREFIX, path_of


@pytest.fixture
def described(app: Flask) -> dict[str, Any]:
    return description_of(app)


def test_it_is_valid_openapi_31_and_served_to_everybody(browser: Browser, described: dict[str, Any]) -> None:
    answer = browser.get("/api/openapi.json")
    assert answer.content_type == "application/json" and answer.json == described
    validate(described, cls=OpenAPIV31SpecValidator)


def test_every_route_is_in_it(app: Flask, described: dict[str, Any]) -> None:
    routes = {
        (path_of(rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith(f"{PREFIX}/")
        for method in (rule.methods or set()) - HIDDEN
    }
    assert routes == {(path, method) for path, methods in described["paths"].items() for method in methods}
    assert len(routes) >= 11
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["summary"].endswith(".") and {"401", "429", "503"} <= set(operation["responses"])


def test_a_route_that_nobody_described_is_found(make_app) -> None:
    app = make_app()
    app.add_url_rule("/api/v1/surprise", "surprise", lambda: "")
    with pytest.raises(KeyError, match="surprise"):
        description_of(app)


def test_it_says_what_the_tables_say(make_app) -> None:
    app = make_app(ai_provider="openai", openai_api_key="x", max_document_chars=1234)
    schemas = description_of(app)["components"]["schemas"]
    assert schemas["Job"]["properties"]["state"]["enum"] == list(State)
    problem = schemas["Job"]["properties"]["error"]["properties"]["category"]
    assert problem["enum"] == list(Category)
    kinds = {kind["properties"]["workflow"]["const"]: kind for kind in schemas["JobRequest"]["oneOf"]}
    assert set(kinds) == set(WORKFLOWS)
    assert all(kind["properties"]["text"]["maxLength"] == 1234 for kind in kinds.values())
    assert "workflow" not in kinds["summary"]["required"]
    assert kinds["questions_answered"]["required"] == ["text", "workflow", "options"]
    length = schemas["Options_summary"]["properties"]["length"]
    assert (length["enum"], length["default"]) == (["short", "medium", "long"], "medium")
    questions = schemas["Options_questions_answered"]["properties"]["questions"]["oneOf"][0]
    assert (questions["maxItems"], questions["items"]["maxLength"]) == (5, 300)


def test_without_an_ai_service_only_the_extract_is_described(described: dict[str, Any]) -> None:
    assert described["components"]["schemas"]["JobRequest"]["properties"]["workflow"]["const"] == "summary"


@pytest.mark.parametrize("fault", ["field", "type", "status", "header"])
def test_an_answer_that_is_not_as_described_is_found(
    program: Program, bench: WebHarness, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Change the document, and check that the client that all tests use notices."""
    job_id, honest = bench.job(), jobs.job_json

    def lie(*arguments: Any) -> dict[str, Any]:
        described = honest(*arguments)
        return {"field": {**described, "more": 1}, "type": {**described, "attempt": "1"}}.get(fault, described)

    real = jobs.json_response
    monkeypatch.setattr(jobs, "job_json", lie)
    if fault == "status":
        monkeypatch.setattr(jobs, "json_response", lambda body, status=200: real(body, 203))
    if fault == "header":

        def with_header(body: dict[str, Any], status: int = 200) -> Any:
            response = real(body, status)
            response.headers["Link"] = "<x>"
            return response

        monkeypatch.setattr(jobs, "json_response", with_header)
    with pytest.raises(NotAsDescribed):
        program.ask("GET", f"/jobs/{job_id}")


def test_the_page_says_all_of_it_and_asks_nobody_else(browser: Browser, ada: Person, described: dict[str, Any]) -> None:
    page = browser.get("/api/docs")
    assert page.status_code == 200 and page.content_type.startswith("text/html")
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"<b>{method.upper()}</b> {path}</code>" in page.text
            assert f'id="{operation["operationId"]}"' in page.text
    anchors = set(re.findall(r'id="(schema-\w+)"', page.text))
    assert anchors and set(re.findall(r'href="#(schema-\w+)"', page.text)) <= anchors
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page.text)
    assert "style=" not in page.text and "<script>" not in page.text
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert "Your tokens" in ada.get("/api/docs").text and "Your tokens" not in page.text


def test_it_holds_nothing_of_the_sites_secrets(make_app) -> None:
    app = make_app(ai_provider="openai", openai_api_key="sk-secret", ai_model="a-model-nobody-needs-to-know")
    said = json.dumps(description_of(app))
    assert "sk-secret" not in said and "a-model" not in said
