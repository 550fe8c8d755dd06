"""Tests incomplete and invalid answers in the formats of other servers than those of the cases A05 to A08."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tasks.fake_provider.replies import chat, response
from tasks.ledger.errors import Category
from tasks.provider import ProviderError
from tasks.provider.error_codes import parse_error_body, verdict_on_details
from tasks.provider.response_parser import read_answer

HALF = "The committee decided that the pier"


def read(body: dict[str, Any]) -> tuple[str, bool]:
    api = "chat" if "choices" in body else "responses"
    answer = read_answer(api, json.dumps(body).encode(), model="m", request_id=None)
    return answer.text, answer.cut_off


def several(*choices: tuple[str, str]) -> dict[str, Any]:
    answer = chat("")
    answer["choices"] = [chat(text, finish)["choices"][0] for text, finish in choices]
    return answer


def with_parts(*parts: dict[str, Any], status: str = "completed", reason: str | None = None) -> dict[str, Any]:
    answer = response("", status, reason)
    answer["output"][1]["content"] = list(parts)
    return answer


@pytest.mark.parametrize(
    "body",
    [
        several((HALF, "length"), ("Another.", "stop")),
        chat([{"type": "text", "text": HALF}], "model_length"),
        with_parts({"type": "output_text", "text": HALF}, status="incomplete", reason="max_output_tokens"),
        {**chat(HALF, "max_tokens"), "usage": None},
    ],
    ids=["the first of two", "in parts", "incomplete", "without usage"],
)
def test_a05_an_answer_that_a_limit_ended_is_never_a_whole_one(body: dict[str, Any]) -> None:
    assert read(body) == (HALF, True)


@pytest.mark.parametrize(
    ("body", "category", "code"),
    [
        (chat(HALF, refusal="I will not."), Category.CONTENT_POLICY, "refusal"),
        (with_parts({"type": "refusal", "refusal": ""}), Category.CONTENT_POLICY, "refusal"),
        (chat("", "content_filter"), Category.CONTENT_POLICY, "content_filter"),
        (with_parts(status="incomplete", reason="content_filter"), Category.CONTENT_POLICY, "content_filter"),
        (chat([{"type": "text", "text": "\u0000 \n"}]), Category.UNCERTAIN, "empty"),
        ({**chat(""), "choices": None}, Category.UNCERTAIN, "empty"),
        ({**chat(""), "choices": [{}]}, Category.UNCERTAIN, "empty"),
        (with_parts({"type": "reasoning_text", "text": "Let me think."}), Category.UNCERTAIN, "empty"),
        (chat(None, "tool_calls", tool_calls=[{"id": "t"}]), Category.UNCERTAIN, "empty"),
        ({**response("Text."), "output": None}, Category.UNCERTAIN, "empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a06_nothing_that_is_no_answer_passes_for_one(body: dict[str, Any], category: Category, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        read(body)
    assert (caught.value.category, caught.value.code) == (category, code)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens"}},
        [{"error": {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed"}}],
        {"object": "error", "message": "Prompt contains 40000 tokens, too large for model with 32768 context length"},
        {"error": {"message": "Please reduce the length of the messages or completion.", "code": None}},
        {"detail": "This model's maximum context length is 4096 tokens"},
    ],
    ids=["anthropic", "google", "mistral", "groq", "fastapi"],
)
def test_a07_too_long_is_known_in_every_dialect(body: Any) -> None:
    assert verdict_on_details(parse_error_body(body)) == (Category.INVALID_REQUEST, "too_long")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\ud83d\ude00 whole", "\U0001f600 whole"),
        ("two halves \ude00\ud83d", "two halves \ufffd\ufffd"),
        ("\x00\x00 NULs \x00", "NULs"),
        ("\udfff" * 3, "\ufffd" * 3),
    ],
    ids=["pair", "wrong order", "NULs", "only halves"],
)
def test_a08_what_no_database_holds_is_mended_in_answers_too(text: str, kept: str) -> None:
    assert read(chat(text)) == read(response(text)) == (kept, False)
