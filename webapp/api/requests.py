"""Reads the requests of API clients, and builds the responses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Response, json, request

from tasks.workflows import Lines, Workflow
from webapp.http.errors import problem
from webapp.http.form_fields import whole_number
from webapp.http.rejection import NotAccepted

MAX_NAME_SHOWN = 60


class Problem(Exception):
    """Raised to end the request with this response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def json_response(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")


def instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def body_fields(known: Collection[str], *, forms: bool = False) -> dict[str, Any]:
    """Return the fields of the body. `forms` also allows a multipart form, whose `options` are JSON.

    Raises Problem for a body that cannot be read, and NotAccepted for an unknown field: a misspelt `option` would
    otherwise be a document summarised with the defaults.
    """
    if request.is_json:
        fields = _json_fields()
    elif forms and request.mimetype == "multipart/form-data":
        fields = _form_fields()
    else:
        also = ", or multipart/form-data with a file" if forms else ""
        raise Problem(problem(415, f"Send application/json{also}"))
    for name in fields:
        if name not in known:
            raise NotAccepted("field_unknown", f"Known fields: {', '.join(known)}.", field=name[:MAX_NAME_SHOWN])
    return fields


def _json_fields() -> dict[str, Any]:
    try:
        body = json.loads(request.get_data())
    except (ValueError, RecursionError):
        raise Problem(problem(400, "The body is not valid JSON")) from None
    if not isinstance(body, dict):
        raise Problem(problem(400, "The body must be a JSON object"))
    return body


def _form_fields() -> dict[str, Any]:
    fields: dict[str, Any] = {**request.form.to_dict(), **request.files.to_dict()}
    if "options" in request.form:
        try:
            fields["options"] = json.loads(request.form["options"])
        except (ValueError, RecursionError):
            raise NotAccepted("options_wrong", "options must be a JSON object.", field="options") from None
    return fields


def text_of(fields: dict[str, Any], name: str, default: str) -> str:
    """Return a text field; the default if it is missing. Raises NotAccepted."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise NotAccepted(f"{name}_wrong", f"{name} must be a string.", field=name)
    return value


@dataclass(frozen=True)
class ApiOptions:
    """Finds the options of a workflow in the field `options` of a body."""

    fields: dict[str, Any]

    def values(self, workflow: Workflow) -> dict[str, Any]:
        """Return the options; empty if there are none. Raises NotAccepted, also for blank lines in a list of lines."""
        options = self.fields.get("options", {})
        if not isinstance(options, dict):
            raise NotAccepted("options_wrong", "options must be an object.", field="options")
        for option in workflow.choices:
            lines = options.get(option.name)
            if isinstance(option, Lines) and isinstance(lines, list) and not all(map(_is_line, lines)):
                message = f"{option.name} must be a list of strings with something in them."
                raise NotAccepted("options_wrong", message, field=option.name)
        return options

    def field(self, workflow: Workflow, option: str) -> str:
        """Return the name of the option."""
        return option


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def number_of(fields: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    """Return a whole number; the default if it is missing. Raises NotAccepted."""
    value = fields.get(name, default)
    # JSON does not distinguish 3 from 3.0
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not low <= value <= high:
        raise NotAccepted(f"{name}_wrong", f"{name} must be a whole number from {low} to {high}.", field=name)
    return int(value)


def flag_of(fields: dict[str, Any], name: str) -> bool:
    """Return a boolean field; False if it is missing. Raises NotAccepted."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise NotAccepted(f"{name}_wrong", f"{name} must be true or false.", field=name)
    return value


def number_in_query(name: str, low: int, high: int) -> int | None:
    """Return a whole number of the query; None if it is missing.

    Raises Problem if it is not a number or out of range.
    """
    given = request.args.get(name)
    if given is None:
        return None
    number = whole_number(given)
    if number is None or not low <= number <= high:
        raise Problem(problem(422, f"{name} is out of range", f"Use {low} to {high}.", field=name))
    return number
