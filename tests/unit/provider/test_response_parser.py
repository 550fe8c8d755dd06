"""Tests bodies of an HTTP 200 that the scripted provider does not make."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tasks.fake_provider.replies import chat, response
from tasks.ledger.errors import Category
from tasks.provider import Answer, ProviderError
from tasks.provider.response_parser import read_answer


def read(api: str, body: Any) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(api, raw, model="asked-for", request_id="req-1")


def failure(api: str, body: Any) -> tuple[Category, str | None]:
    with pytest.raises(ProviderError) as caught:
        read(api, body)
    assert caught.value.__context__ is None
    assert (caught.value.http_status, caught.value.request_id, caught.value.sent) == (200, "req-1", True)
    return caught.value.category, caught.value.code


@pytest.mark.parametrize("finish", ["stop", "eos", "end_turn", None, 7, {"a": 1}])
def test_finish_reasons_that_mean_stop(finish: Any) -> None:
    assert read("chat", chat("Text.", finish)).text == "Text."


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length"])
def test_finish_reasons_that_mean_cut_off(finish: str) -> None:
    answer = read("chat", chat("Text", finish))
    assert (answer.text, answer.cut_off) == ("Text", True)
    assert failure("chat", chat("", finish)) == (Category.INVALID_REQUEST, "output_limit")


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "One "}, {"type": "text", "text": "two."}, {"type": "reference"}, None]
    assert read("chat", chat(parts)).text == "One two."


def test_message_beside_reasoning() -> None:
    answer = response("One.")
    answer["output"][1]["content"].append({"type": "output_text", "text": " Two."})
    assert read("responses", answer).text == "One. Two."


def test_text_with_a_refusal_is_a_refusal() -> None:
    answer = response("Part of it.")
    answer["output"][1]["content"].append({"type": "refusal", "refusal": "No."})
    assert failure("responses", answer) == (Category.CONTENT_POLICY, "refusal")


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled", None, "new_status", ["completed"]])
def test_text_of_a_response_that_is_not_completed_does_not_count(status: Any) -> None:
    assert failure("responses", response("Text.", status)) == (Category.UNCERTAIN, "unfinished")


@pytest.mark.parametrize("reason", ["steered", "max_messages", None, ["content_filter"]])
def test_incomplete_for_another_reason(reason: Any) -> None:
    assert failure("responses", response("Text.", "incomplete", reason)) == (Category.UNCERTAIN, "unfinished")


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize(
    "body",
    [
        {"output": 7, "choices": 7},
        {"output": [None, 7, {"type": "message", "content": None}], "choices": [None]},
        {"output": [{"type": "message", "content": [None, {"type": "output_text"}]}], "choices": ["x"]},
        {"output": {"a": 1}, "choices": {"a": 1}, "usage": 7},
        {"output": [{"type": "message", "content": {}}], "choices": [{"message": {"content": 7}}]},
    ],
)
def test_holes_of_every_sort(api: str, body: Any) -> None:
    assert failure(api, body) == (Category.UNCERTAIN, "empty")


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff\xfe", b"", b"NaN", b'"x"', b"{'a': 1}"])
def test_what_is_no_object(body: bytes) -> None:
    assert failure("chat", body) == (Category.UNCERTAIN, "unreadable")


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("usage", [None, {}, 7, {"input_tokens": "x"}, {"prompt_tokens": -1}, {"input_tokens": True}])
def test_tokens_that_are_not_told(api: str, usage: Any) -> None:
    body = {**(response("Text.") if api == "responses" else chat("Text.")), "usage": usage}
    assert (read(api, body).input_tokens, read(api, body).output_tokens) == (None, None)


def test_count_that_no_column_holds() -> None:
    assert read("chat", {**chat("Text."), "usage": {"prompt_tokens": 2**31}}).input_tokens is None


@pytest.mark.parametrize("odd", [None, 7, "two words", "line\nbreak", "", "x" * 201, "é"])
def test_model_and_id_that_are_no_words(odd: Any) -> None:
    answer = read("chat", {**chat("Text."), "model": odd, "id": odd})
    assert (answer.model, answer.response_id) == ("asked-for", None)


@pytest.mark.parametrize("code", ["²", "99999999999999999999", "4290", "399", "600", "-429"])
def test_code_that_is_no_status(code: str) -> None:
    assert failure("chat", {"error": {"code": code}}) == (Category.UNCERTAIN, "failed")
