"""The shared responses of the API: errors, and the headers of every response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.http.errors import PAGES
from webapp.http.long_polling import Ended

Json = Mapping[str, Any]


def _text(about: str) -> Json:
    return {"description": about, "schema": {"type": "string"}}


HEADERS: Json = {
    "RateLimit-Policy": _text(
        'The limits: `"requests";q=600;w=60` is 600 requests in 60 seconds. On endpoints that accept documents, '
        '`"jobs";q=100;w=86400` is 100 of them in 24 hours.'
    ),
    "RateLimit": _text('What is left: `"requests";r=598;t=41` is 598 requests in the next 41 seconds.'),
    "Retry-After": {"description": "In how many seconds to try again.", "schema": {"type": "integer", "minimum": 1}},
    "Location": _text("URL of the new resource."),
    "Link": _text('The next page of the list: `</api/v1/jobs?before=…>; rel="next"`. Missing on the last page.'),
    "Waybill-Wait": {
        "description": "Why the response came when it did. Only with `wait`.",
        "schema": {"type": "string", "enum": [str(ended) for ended in Ended]},
    },
    "WWW-Authenticate": _text("The authentication scheme."),
    "Allow": _text("The methods that this URL supports."),
}
LIMITS = ("RateLimit-Policy", "RateLimit")
_HEADERS_OF = {401: ("WWW-Authenticate",), 405: ("Allow",), 429: (*LIMITS, "Retry-After"), 503: ("Retry-After",)}
_DESCRIPTIONS = {
    400: "The request cannot be read, for example because its body is not JSON.",
    401: "There is no token, or it is not valid.",
    403: "The token is valid, but the site's operator disabled its account; `code` is `account_disabled`.",
    404: "It does not exist, or it belongs to another account.",
    409: "The request conflicts with the current state; see `title` and `state`.",
    410: "It was deleted when its retention period was over; see `deleted_at`.",
    413: "The request is too large.",
    415: "The body's media type is not supported.",
    422: "A value is missing or wrong; `field` names it, `code` says how.",
    429: "Too many requests; or a limit of the account is reached, which `code` names, until `until`.",
    503: PAGES[503][0] + ".",
}
EVERYWHERE = (401, 403, 429, 503)
"""The error statuses that any request may get."""


def refused(status: int) -> Json:
    return {"$ref": f"#/components/responses/{status}"}


def given(about: str, schema: str | None, *headers: str, media: str = "application/json") -> Json:
    """Describe a successful response: its text, the name of its schema (None for no body), and its own headers."""
    names = (*LIMITS, *headers)
    return {
        "description": about,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        **({"content": {media: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}} if schema else {}),
    }


SHARED: Json = {
    str(status): {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS_OF.get(status, ())},
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, description in _DESCRIPTIONS.items()
}
