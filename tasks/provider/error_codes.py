"""The meaning of a provider's error codes and, where codes are missing or wrong, of a few phrases of its messages.

A single table for errors that come with a status and for errors inside an HTTP 200. Phrases are only compared, never
stored. Sources are next to the entries; entries without a source are the SDK's own types (`response_error.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tasks.ledger.errors import Category

Verdict = tuple[Category, str]

QUOTA_CODES = frozenset(
    {
        # https://help.openai.com/en/articles/6614457-troubleshooting-api-usage-and-spend-limits
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "billing_not_active",
        # https://github.com/bajrangCoder/acode-plugin-chatgpt/issues/19
        "billing_hard_limit_reached",
    }
)

_CODES: dict[str, Verdict] = {
    **{code: (Category.QUOTA, code) for code in QUOTA_CODES},
    "invalid_api_key": (Category.AUTH, "credentials"),
    "model_not_found": (Category.PERMISSION, "model_not_found"),
    "data_residency_mismatch": (Category.PERMISSION, "data_residency"),
    # https://developers.openai.com/docs/guides/error-codes
    "unsupported_country_region_territory": (Category.PERMISSION, "region"),
    # https://github.com/mckaywrigley/chatbot-ui/issues/102
    "context_length_exceeded": (Category.INVALID_REQUEST, "too_long"),
    "string_above_max_length": (Category.INVALID_REQUEST, "too_long"),
    # llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "exceed_context_size_error": (Category.INVALID_REQUEST, "too_long"),
    # https://github.com/BeehiveInnovations/pal-mcp-server/issues/178
    "invalid_prompt": (Category.CONTENT_POLICY, "flagged"),
    "content_policy_violation": (Category.CONTENT_POLICY, "flagged"),
    "bio_policy": (Category.CONTENT_POLICY, "flagged"),
    "misalignment_policy_violation": (Category.CONTENT_POLICY, "flagged"),
    "image_content_policy_violation": (Category.CONTENT_POLICY, "flagged"),
    "content_filter": (Category.CONTENT_POLICY, "content_filter"),
    "failed_to_download_image": (Category.INVALID_REQUEST, "image"),
    "empty_image_file": (Category.INVALID_REQUEST, "image"),
    "unsupported_image_media_type": (Category.INVALID_REQUEST, "image"),
    "rate_limit_exceeded": (Category.RATE_LIMITED, "rate_limit"),
    "server_error": (Category.OVERLOADED, "server_error"),
    "vector_store_timeout": (Category.OVERLOADED, "server_error"),
    # https://www.developersdigest.tech/errors/api/openai-api/503-server-is-overloaded
    "server_is_overloaded": (Category.OVERLOADED, "overloaded"),
    "service_unavailable_error": (Category.OVERLOADED, "overloaded"),
    "slow_down": (Category.OVERLOADED, "overloaded"),
}

_PHRASES: tuple[tuple[str, Verdict], ...] = (
    ("billing hard limit", (Category.QUOTA, "billing_hard_limit_reached")),
    # The code beside it is `unsupported_value`. https://github.com/danny-avila/LibreChat/issues/6926
    ("organization must be verified", (Category.PERMISSION, "unverified_organization")),
    ("maximum context length", (Category.INVALID_REQUEST, "too_long")),
    # The phrases for the same error in the OpenAI-compatible APIs of Anthropic, Google, Mistral and Groq.
    ("prompt is too long", (Category.INVALID_REQUEST, "too_long")),
    ("exceeds the maximum number of tokens", (Category.INVALID_REQUEST, "too_long")),
    ("too large for model", (Category.INVALID_REQUEST, "too_long")),
    ("reduce the length of the messages", (Category.INVALID_REQUEST, "too_long")),
    ("exceeds the available context size", (Category.INVALID_REQUEST, "too_long")),
    ("violating our usage policy", (Category.CONTENT_POLICY, "flagged")),
)


@dataclass(frozen=True)
class ErrorDetails:
    """Holds the code and type of an error body (lower case, None if absent) and its message, only for comparing."""

    code: str | None = None
    type: str | None = None
    message: str = field(default="", repr=False)

    @property
    def is_quota(self) -> bool:
        """Return True if code or type is a quota code: some servers put it in the type, with no or a general code."""
        return self.code in QUOTA_CODES or self.type in QUOTA_CODES

    def mentions(self, phrase: str) -> bool:
        return phrase in self.message


def parse_error_body(body: Any) -> ErrorDetails:
    """Return the details of an error body in any of the known shapes.

    `{"error": {…}}` (OpenAI), its inner object, `{"error": "text"}` (Ollama), `{"detail": …}` (FastAPI),
    `[{"error": {…}}]` (Gemini), plain text. Other bodies give empty details.
    """
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict):
            message = inner.get("message", inner.get("detail"))
            return ErrorDetails(_code(inner.get("code")), _code(inner.get("type")), _message(message))
        body = inner
    return ErrorDetails(message=_message(body))


def verdict_on_details(details: ErrorDetails) -> Verdict | None:
    """Return the verdict that the details alone allow, or None.

    Phrases come first, since they were added where the code is known to mislead. The type comes last, since servers
    use it for groups of errors (`invalid_request_error`).
    """
    for phrase, verdict in _PHRASES:
        if details.mentions(phrase):
            return verdict
    if details.is_quota and details.code not in QUOTA_CODES:
        return Category.QUOTA, details.type or "insufficient_quota"
    for code in (details.code, details.type):
        if code is None:
            continue
        if code in _CODES:
            return _CODES[code]
        if code.startswith(("image_", "invalid_image")):
            return Category.INVALID_REQUEST, "image"
    return None


def _code(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _message(value: Any) -> str:
    return value[:2000].lower() if isinstance(value, str) else ""
