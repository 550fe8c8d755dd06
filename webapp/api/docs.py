"""The description of the API: the OpenAPI document for programs, and the same as a page for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, current_app, render_template
from flask.typing import ResponseReturnValue

from tasks.i18n import ENGLISH, use_language
from webapp.api import openapi
from webapp.api.requests import json_response
from webapp.services import services, site_origin

api_docs = Blueprint("api_docs", __name__)
Json = Mapping[str, Any]


@api_docs.get("/api/openapi.json")
def openapi_json() -> ResponseReturnValue:
    """Return the OpenAPI 3.1 document."""
    return json_response(_document())


@api_docs.get("/api/docs")
def page() -> ResponseReturnValue:
    """Show the same document as a page. It needs no sign-in and loads nothing from outside."""
    described = _document()
    return render_template(
        "api/docs.html",
        api=described,
        site=site_origin(),
        operations=_by_tag(described),
        fields=fields_of,
        of=_resolver,
    )


def _document() -> dict[str, Any]:
    with use_language(ENGLISH):  # the API responds in English, so its description is English, too
        return openapi.document(current_app, services().settings)


def _by_tag(described: Json) -> dict[str, list[tuple[str, str, Json]]]:
    """Return the operations of each tag, as method, path and description."""
    found: dict[str, list[tuple[str, str, Json]]] = {tag["name"]: [] for tag in described["tags"]}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            found[operation["tags"][0]].append((method.upper(), path, operation))
    return found


def _resolver(described: Json, schema: Json) -> Json:
    """Return the schema that a reference points to; return anything else unchanged."""
    while "$ref" in schema:
        found: Any = described
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


@dataclass(frozen=True)
class Field:
    """Describes one value of an object: name, type in words, and the name of its schema (None if it has none)."""

    name: str
    kind: str
    schema: str | None
    needed: bool
    about: str


def fields_of(schema: Json) -> Iterator[Field]:
    """Yield the values of an object."""
    for name, value in schema.get("properties", {}).items():
        kind, named = kind_of(value)
        yield Field(name, kind, named, name in schema.get("required", ()), value.get("description", ""))


def kind_of(schema: Json) -> tuple[str, str | None]:
    """Return the type of a value in words, and the name of the schema that it follows or contains."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name, name
    if "const" in schema:
        return f"always {schema['const']}", None
    if "oneOf" in schema:
        kinds = [kind_of(option) for option in schema["oneOf"]]
        return " or ".join(kind for kind, _ in kinds), next((name for _, name in kinds if name), None)
    if "enum" in schema:
        return "one of " + ", ".join(str(word) for word in schema["enum"]), None
    types = schema.get("type", "anything")
    types = [types] if isinstance(types, str) else types
    if "array" in types:
        kind, named = kind_of(schema.get("items", {}))
        return f"list of {kind}", named
    return " or ".join(map(str, types)) + _bounds(schema), None


def _bounds(schema: Json) -> str:
    words = [str(schema["format"])] if "format" in schema else []
    if "maximum" in schema:
        words.append(f"{schema.get('minimum', 0):,} to {schema['maximum']:,}")
    if "maxLength" in schema:
        words.append(f"at most {schema['maxLength']:,} characters")
    if "default" in schema:
        words.append(f"{schema['default']} if missing")
    return "".join(f", {word}" for word in words)
