"""What a provider's own words mean: its error codes and, where codes are missing or lie, a few of its phrases.

One table for errors that come with a status and for those inside an HTTP 200. A phrase is only ever compared, never
kept. Sources are beside the entries; entries without one are the SDK's own types (`response_error.py`).
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
    # Anthropic's, Google's, Mistral's and Groq's way to say the same through their OpenAI-compatible doors.
    ("prompt is too long", (Category.INVALID_REQUEST, "too_long")),
    ("exceeds the maximum number of tokens", (Category.INVALID_REQUEST, "too_long")),
    ("too large for model", (Category.INVALID_REQUEST, "too_long")),
    ("reduce the length of the messages", (Category.INVALID_REQUEST, "too_long")),
    ("exceeds the available context size", (Category.INVALID_REQUEST, "too_long")),
    ("violating our usage policy", (Category.CONTENT_POLICY, "flagged")),
)


@dataclass(frozen=True)
class ProviderWords:
    """What an error body says: its code and type (lower case, None where absent) and its message, to compare only."""

    code: str | None = None
    type: str | None = None
    message: str = field(default="", repr=False)

    @property
    def is_quota(self) -> bool:
        """Some servers put the word in the type and leave the code empty or general."""
        return self.code in QUOTA_CODES or self.type in QUOTA_CODES

    def says(self, phrase: str) -> bool:
        return phrase in self.message


def words_in(body: Any) -> ProviderWords:
    """The words of an error body in any of the shapes seen.

    `{"error": {…}}` (OpenAI), its inside, `{"error": "text"}` (Ollama), `{"detail": …}` (FastAPI), `[{"error": {…}}]`
    (Gemini), plain text. Anything else says nothing.
    """
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict):
            message = inner.get("message", inner.get("detail"))
            return ProviderWords(_word(inner.get("code")), _word(inner.get("type")), _message(message))
        body = inner
    return ProviderWords(message=_message(body))


def meaning_of(words: ProviderWords) -> Verdict | None:
    """The verdict that the words alone allow, or None.

    Phrases go first: they were added where the code is known to mislead. The type comes last, since servers use it for
    families (`invalid_request_error`).
    """
    for phrase, verdict in _PHRASES:
        if words.says(phrase):
            return verdict
    if words.is_quota and words.code not in QUOTA_CODES:
        return Category.QUOTA, words.type or "insufficient_quota"
    for word in (words.code, words.type):
        if word is None:
            continue
        if word in _CODES:
            return _CODES[word]
        if word.startswith(("image_", "invalid_image")):
            return Category.INVALID_REQUEST, "image"
    return None


def _word(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _message(value: Any) -> str:
    return value[:2000].lower() if isinstance(value, str) else ""
