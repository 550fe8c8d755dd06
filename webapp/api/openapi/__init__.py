"""Describes the API as an OpenAPI 3.1 document, built from the code's own tables so that the two cannot differ."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from flask import Flask

from tasks.settings import Settings
from webapp.api.openapi import operations, responses, schemas

PREFIX = "/api/v1"
TITLE, VERSION = "Waybill API", "1.0"
ABOUT = (
    "Documents in, AI summaries out. A document that was accepted is a job; ask for the job until its state is "
    "`succeeded`, `failed` or `cancelled`, then fetch the result. Make a token on the account page, and send it with "
    "every request. Errors are problem documents (RFC 9457): `title` and `detail` are for people, `code`, `field` and "
    "`state`, if present, for programs. Responses may gain fields at any time; unknown fields "
    "in requests are refused."
)
HIDDEN = frozenset({"HEAD", "OPTIONS"})


def document(app: Flask, settings: Settings) -> dict[str, Any]:
    """Build the whole document from the routes of this app. Raises KeyError naming a route that is not described."""
    paths: dict[str, dict[str, Any]] = {}
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(f"{PREFIX}/"):
            path = paths.setdefault(path_of(rule.rule), {})
            for method in (rule.methods or set()) - HIDDEN:
                path[method.lower()] = _operation(app, rule.endpoint, settings)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION, "description": ABOUT},
        "servers": [{"url": settings.app_base_url.rstrip("/") if settings.app_base_url else "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": about} for name, about in operations.TAGS.items()],
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": schemas.all_schemas(settings),
            "parameters": operations.PATH_PARAMETERS,
            "headers": responses.HEADERS,
            "responses": responses.SHARED,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token: `Authorization: Bearer wb_…`.",
                }
            },
        },
    }


def path_of(rule: str) -> str:
    """Return a route in OpenAPI's notation: `/jobs/{job_id}`."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)


def _operation(app: Flask, endpoint: str, settings: Settings) -> Mapping[str, Any]:
    described = operations.ALL[endpoint]
    summary, _, more = (inspect.getdoc(app.view_functions[endpoint]) or "").partition("\n\n")
    return {
        "operationId": endpoint.removeprefix("api.").replace("_", "-"),
        "tags": [described.tag],
        "summary": " ".join(summary.split()),
        **({"description": more} if more else {}),
        **described.in_openapi(settings),
    }
